// Several rows as one instruction: a chain of pieces, of which each reads what the one before it
// wrote, or all that it read, so that a kernel may keep an element in a register from one to the
// next. What the chain means follows from its pieces. Only compile/ makes such rows, where a target
// names the chain; no graph has one.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "op/ops.h"

namespace fourfold::op {

class Op;

/// A chain of rows in one instruction. Its operands are those of its pieces, each once: what pieces
/// read from outside, then what they write. A value is handed on where the next piece writes its
/// result over it ("add_bias+gelu"), and kept where it is an output of the whole
/// ("add_bias&gelu"); where the next piece reads nothing of it, it reads all that the one before
/// did, or is brought together with it by a later piece
/// ("layer_norm_weight_gradient|layer_norm_gradient"). The pieces, one after another, define what a
/// chain computes; a kernel may do all at once, may then keep a product unrounded until the end,
/// and may add up in another order. The last `between` operands are values between pieces
/// (Operand::is_between), which have memory of their own for whoever runs the pieces.
class Fused {
 public:
  static constexpr std::string_view name = "fused";  // of the row; a chain has a name of its own
  FOURFOLD_ATTRIBUTES()

  /// No pieces at all.
  Fused();
  Fused(const Fused& other);
  Fused(Fused&& other) noexcept;
  Fused& operator=(const Fused& other);
  Fused& operator=(Fused&& other) noexcept;
  ~Fused();
  bool operator==(const Fused& other) const;

  /// The chain of these pieces, whose operands are numbered as those of the whole; or why they are
  /// none.
  static std::variant<Fused, Mistake> of(std::vector<Piece> pieces, std::size_t between = 0);

  /// The names of the pieces, with a +, & or | between two of them.
  const std::string& chain_name() const { return chain_name_; }
  /// So many of the last operands are values between pieces.
  std::size_t between() const { return between_; }
  std::vector<Piece> pieces() const;
  /// The number of pieces, and one of them.
  std::size_t size() const;
  const Piece& piece(std::size_t index) const;

  Operands operands() const { return operands_; }
  Outputs outputs(Shapes reads) const;
  double flops(Shapes all) const;
  std::int64_t integer_bound(Shapes all) const;
  /// Calls visit(op, operands) for each piece; the attributes of its op may be changed, as long as
  /// its operands stay what they are.
  template <class Self, class Visit>
  static void for_each_piece(Self& self, Visit&& visit) {
    for (auto& [op, own] : self.pieces_) visit(op, own);
  }
  /// The same chain with another micro-batch in all pieces.
  Fused with_micro(std::int64_t micro) const;

 private:
  std::vector<Piece> pieces_;
  Operands operands_;
  std::string chain_name_;
  std::size_t between_ = 0;
};

/// What stands between two names: a value is handed on, is kept, or is none, as both read the same.
inline constexpr std::string_view links = "+&|";
/// The names that a chain's name joins; one name where it is that of a plain row.
std::vector<std::string_view> names_of_chain(std::string_view chain);

/// FOURFOLD_FUSED_ROWS(ROW) is ROW(Type, class of its work) for the row above; the class of a chain
/// is that of the piece which has most to do (op::work_class).
#define FOURFOLD_FUSED_ROWS(ROW) ROW(Fused, elementwise)

}  // namespace fourfold::op
