// The closed table of ops: one variant, and what can be asked of any row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "op/attention.h"
#include "op/conditioning.h"
#include "op/diffusion.h"
#include "op/elementwise.h"
#include "op/fused.h"
#include "op/group_norm.h"
#include "op/optimizers.h"
#include "op/pictures.h"

namespace fourfold::op {

/// The list of rows, the one there is, each with the class of its work. Op below and the tables of
/// kernels (rows.h of each backend) are made from it: a row without rules does not compile, and a
/// row without a kernel does not link. FOURFOLD_ROWS(ROW) is ROW(Type, work) for every row.
#define FOURFOLD_ROWS(ROW)        \
  FOURFOLD_PLAIN_ROWS(ROW)        \
  FOURFOLD_OPTIMIZER_ROWS(ROW)    \
  FOURFOLD_ATTENTION_ROWS(ROW)    \
  FOURFOLD_PICTURE_ROWS(ROW)      \
  FOURFOLD_GROUP_NORM_ROWS(ROW)   \
  FOURFOLD_CONDITIONING_ROWS(ROW) \
  FOURFOLD_DIFFUSION_ROWS(ROW)    \
  FOURFOLD_FUSED_ROWS(ROW)        \
  FOURFOLD_ELEMENTWISE_ROWS(ROW)

/// The number of each row, in the order of the list.
enum class RowIndex : std::uint8_t {
#define FOURFOLD_ROW(Row, work) of_##Row,
  FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW
      end
};
inline constexpr auto num_rows = static_cast<std::size_t>(RowIndex::end);

/// The number of a row by its type; `end` for any other type.
template <class Type>
inline constexpr RowIndex row_index = RowIndex::end;
#define FOURFOLD_ROW(Row, work) \
  template <>                   \
  inline constexpr RowIndex row_index<Row> = RowIndex::of_##Row;
FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW
template <class Type>
concept IsRow = row_index<Type> != RowIndex::end;

/// One of the rows, with its attributes. It is no std::variant: one of so many types is an eighth
/// of the precompiled headers, which every file loads.
class Op {
 public:
  /// A product of two matrices.
  Op();
  template <IsRow Row>
  Op(Row row) : index_(row_index<Row>) {
    new (bytes_) Row(std::move(row));
  }
  Op(const Op& other);
  Op(Op&& other) noexcept;
  Op& operator=(const Op& other);
  Op& operator=(Op&& other) noexcept;
  ~Op();
  bool operator==(const Op& other) const;

  /// The place of the row in the list.
  std::size_t index() const { return static_cast<std::size_t>(index_); }
  template <IsRow Row>
  bool is() const {
    return index_ == row_index<Row>;
  }
  /// The row, or nothing where the op is another.
  template <IsRow Row>
  const Row* get_if() const {
    return is<Row>() ? std::launder(reinterpret_cast<const Row*>(bytes_)) : nullptr;
  }
  template <IsRow Row>
  Row* get_if() {
    return is<Row>() ? std::launder(reinterpret_cast<Row*>(bytes_)) : nullptr;
  }
  /// The row; throws InternalError where the op is another.
  template <IsRow Row>
  const Row& get() const {
    if (!is<Row>()) fail_as_another();
    return *get_if<Row>();
  }
  template <IsRow Row>
  Row& get() {
    if (!is<Row>()) fail_as_another();
    return *get_if<Row>();
  }

 private:
  template <class Visit, class AnyOp>
  friend decltype(auto) visit_row(Visit&& visit, AnyOp& op);
  [[noreturn]] static void fail_as_another();

#define FOURFOLD_ROW(Row, work) sizeof(Row),
  alignas(std::max_align_t) std::byte bytes_[std::max({FOURFOLD_ROWS(FOURFOLD_ROW)})];
#undef FOURFOLD_ROW
  RowIndex index_;
};

/// Calls `visit` with the row of an op, as std::visit does.
template <class Visit, class AnyOp>
decltype(auto) visit_row(Visit&& visit, AnyOp& op) {
  switch (op.index_) {
#define FOURFOLD_ROW(Row, work) \
  case RowIndex::of_##Row:      \
    return visit(*op.template get_if<Row>());
    FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW
    case RowIndex::end:
      break;
  }
  fail_internal("an op is one of the rows");
}

/// One row of those that make up another, and which operands of the whole it has.
struct Piece {
  Op op;
  std::vector<std::size_t> operands;
  bool operator==(const Piece&) const = default;
};

/// The name of the row, or that of a chain (Fused::chain_name); a view into `op` then.
std::string_view name(const Op& op);
/// Each row once, in the order of the list, with the defaults of its attributes.
std::vector<Op> all_rows();
Operands operands(const Op& op);
/// The shapes of the outputs, or what is wrong with those of the reads: for any number of reads, of
/// any shapes, and attributes as a text may claim them. Where it gives shapes, every operand has
/// less than 2^63 elements.
Outputs judge_outputs(const Op& op, Shapes reads);
/// The shapes of the outputs of an op that is known to be right; throws InternalError where
/// judge_outputs finds a mistake.
std::vector<Shape> outputs(const Op& op, Shapes reads);
/// The factor rule of an op that stands for itself; others have that of each of their pieces.
FactorRule factors(const Op& op, Shapes reads);
double flops(const Op& op, Shapes all);
/// Computes the outputs of an op that stands for itself over residues (residues.h), from reads of
/// shapes that judge_outputs accepts. Throws ZeroDivisor.
void compute_residues(const Op& op, const Residues& residues, ResidueTensors all);
WorkClass work_class(const Op& op);

/// The rows that a row stands for: those of a chain, or one for each tensor of a list. They run in
/// this order, and one may read what an earlier one wrote. Any other row stands for itself. What an
/// op means (shapes, factors, who updates what) is judged by its pieces; what it touches and when,
/// as a whole.
std::vector<Piece> pieces(const Op& op);
bool stands_for_itself(const Op& op);
double flops_of_pieces(std::span<const Piece> pieces, Shapes all);
/// The integers that an op reads are below this and not negative, but for labels, which may be -1:
/// rows of a table, columns of logits, positions; switches and counts elsewhere. Where samples may
/// hold several documents, each is one.
std::int64_t integer_bound(const Op& op, Shapes all);
/// A product of matrices, `count` times (m, k) by (k, n). In `layout`, such as "nt", a t says that
/// the first or the second lies transposed.
struct ProductSizes {
  std::int64_t count, m, n, k;
  std::string layout;
};
ProductSizes product_sizes(const Contract& op, Shapes all);

/// Rows that, one after another, compute what a row does where ranks share a factor that the row
/// wants whole: FactorRule::cut_form names it.
struct CutForm {
  /// Operands from the number of the row's own on are values in between.
  std::vector<Piece> rows;
  std::vector<std::string> between;  // names of those values
};
/// `chunks` is into how many equal chunks a norm cuts the factor for its moments: at least as many
/// as ranks share it. Nothing where the row has no such form.
std::optional<CutForm> cut_form(const Op& op, Shapes reads, std::int64_t chunks);

/// The product of matrices in a row: its first two operands are then those of the row. A
/// convolution has none.
std::optional<Contract> product_of(const Op& op);
/// The first operand that holds such state.
std::optional<std::size_t> operand_of(const Op& op, State state);
/// True if the op changes what it keeps in such an operand: every row with a weight does, those
/// with a counter either change it or read it.
bool updates(const Op& op, State state);
/// What a row that only writes one number everywhere writes.
std::optional<double> constant_of(const Op& op);
/// The rows that a compiler adds by itself: the sum of two tensors; what rounds a tensor from the
/// type of sums to that of the computation; what leads it back, and what adds such a tensor, the
/// second one that it reads, to one of the type of sums.
Op sum_of_two();
Op rounding();
Op widening();
Op sum_with_rounded();
bool is_sum_of_two(const Op& op);
bool is_rounding(const Op& op);
bool is_widening(const Op& op);
bool is_sum_with_rounded(const Op& op);
/// True if operands of Element::compute may hold any element type, one for all of them, instead of
/// the run's: the instruction's dtype says which. Start, update and digest of state that is kept in
/// the type of sums, and sums of any kind.
bool takes_any_element(const Op& op);
/// Bytes read and written, each operand once (an update counts twice), but for values between the
/// pieces of a chain.
double traffic_bytes(const Op& op, Shapes all, DType compute);

/// As for_each_place, of an op that is no chain.
template <class AnyOp, class Visit>
void for_each_own_place(AnyOp& op, Visit&& visit) {
  visit_row(
      [&]<class Row>(Row& row) {
        if constexpr (requires { std::decay_t<Row>::places(row, visit); })
          std::decay_t<Row>::places(row, visit);
      },
      op);
}

/// Calls `visit(place, attribute)` for each attribute that says which share of a tensor or of the
/// samples is here; of a chain, those of its pieces.
template <class AnyOp, class Visit>
void for_each_place(AnyOp& op, Visit&& visit) {
  auto* chain = op.template get_if<Fused>();
  if (chain == nullptr) return for_each_own_place(op, visit);
  Fused::for_each_piece(*chain, [&](auto& piece, const std::vector<std::size_t>& operands) {
    for_each_own_place(piece, [&](Place place, auto& told) {
      place.operand = operands[place.operand];
      visit(place, told);
    });
  });
}

/// True if the op can add to its outputs instead of overwriting them, and the same op told to do so
/// (or not to).
bool can_accumulate(const Op& op);
Op with_accumulate(Op op, bool accumulate);
/// An update that also writes the weight in the type of the computation.
Op with_rounded(Op op);
/// The same op with its output in the type of its sums; ops whose outputs have it anyway are
/// returned as they are.
Op with_unrounded(Op op);
/// The same op for another micro-batch; ops that do not depend on it are returned as they are.
Op with_micro(Op op, std::int64_t micro);
/// An op written for the samples of a chunk, as one for chunk number `chunk` of a micro-batch of
/// `chunks` times as many samples; ops that do not depend on it are returned as they are.
Op with_chunk(Op op, std::int64_t chunk, std::int64_t chunks);
/// The micro-batch and chunk whose samples an op counts; nothing where it counts none.
std::optional<SampleWindow> samples_of(const Op& op);

/// The attributes that differ from their defaults, "eps 1e-05 bias true"; "" when none does. A
/// window of samples prints as "micro M samples S first F", and "chunk C" where that is not 0; one
/// of a tensor as "global [8, 4] at [0, 2]"; `micro` equal to `task_micro` prints as the word
/// "micro", so that equal tasks have equal text. Numbers print so that they read back exactly.
std::string attributes_text(const Op& op, std::optional<std::int64_t> task_micro);
/// Reads a name and what attributes_text writes. Throws UserError (bad_config) naming the word it
/// did not understand.
Op parse_op(std::string_view name, std::string_view attributes,
            std::optional<std::int64_t> task_micro);

}  // namespace fourfold::op
