// What every row of the op table states about itself: operands, shapes, factors, work.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "op/factors.h"

namespace fourfold::op {

/// What an op does with an operand. `update` reads the old content and writes the new one.
enum class Role : std::uint8_t { read, write, update };

/// The element type of an operand: fixed, or that of the computation, or the type of its sums (see
/// accumulation_type).
enum class Element : std::uint8_t { compute, accumulate, i32, i64, u64, f64, u8 };
DType element_dtype(Element element, DType compute);
/// The element type of an operand that a row keeps `wide`: in the type of sums, float32 beside
/// bf16.
constexpr Element wide_if(bool wide) {
  return wide ? Element::accumulate : Element::compute;
}

/// What an operand of the optimizer is: the gradient, what is kept from step to step (a weight, its
/// copy in the type of the computation, its moments, its moving average, the count of updates, that
/// of elements which no update could write), or a sum over all gradients or all updates of the
/// model; `none` of all others.
enum class State : std::uint8_t {
  none,
  gradient,
  weight,
  rounded,
  moment,
  average,
  counter,
  non_finite,
  sum_over_gradients,
  sum_over_updates
};

struct Operand {
  std::string_view name;
  Role role = Role::read;
  Element element = Element::compute;
  /// Index of a read operand of the same shape and dtype whose memory this output may take over,
  /// element by element.
  std::optional<std::size_t> may_alias = std::nullopt;
  State state = State::none;
  /// A value that one piece of a chain hands to a later one, and that nothing else may read: a
  /// kernel that computes all pieces at once may leave its memory as it was.
  bool is_between = false;
};
/// Reads come first, then writes and updates: the order of operands everywhere.
using Operands = std::vector<Operand>;

/// Values from `low` to `high`.
struct Range {
  double low = -1, high = 1;
};

/// Why no op can read these shapes: a sentence that says what would do.
struct Mistake {
  std::string sentence;
};

/// What a shape rule answers: the shapes of the outputs, or the mistake in those of the reads.
class Outputs {
 public:
  Outputs(std::initializer_list<Shape> shapes) : answer_(std::vector<Shape>(shapes)) {}
  Outputs(std::vector<Shape> shapes) : answer_(std::move(shapes)) {}
  Outputs(Mistake mistake) : answer_(std::move(mistake)) {}

  /// Null where there is none.
  const Mistake* mistake() const { return std::get_if<Mistake>(&answer_); }
  /// Throws InternalError with the mistake where there is one.
  const std::vector<Shape>& shapes() const;

 private:
  std::variant<std::vector<Shape>, Mistake> answer_;
};

/// What the time of an op goes into.
enum class WorkClass : std::uint8_t {
  product,      // a product of matrices, also with what follows it: counted in flops
  core,         // products of activations with one another and what stands between them (attention)
  elementwise,  // each element of the outputs from few elements of the reads: counted in bytes
  reduction,    // sums or maxima along a dim, and what is made of them
  look_up,      // rows of a table, found by integers
  optimizer,    // changes weights
  control,      // a few scalars
  source,       // makes a tensor out of nothing
};
/// True if an op of this class is as fast as its flops allow, and not as its bytes do.
constexpr bool is_counted_in_flops(WorkClass work) {
  return work == WorkClass::product || work == WorkClass::core;
}

/// The sharding rule, as an einsum states it: each dim of each operand is a factor (a letter), or a
/// product of several.
///  - A factor in reads and outputs may be cut: every operand that has it is cut alike.
///  - A factor in reads only is reduced over: cutting it makes the outputs partial on that axis,
///  a sum unless `reduction` says otherwise.
///  - A factor in outputs only may be cut freely; the op's attributes then say which part this rank
///  computes.
///  - A factor in `repeated` is not reduced over: outputs that lack it do not depend on it, and
///  ranks that cut it all compute them.
///  - A factor in `whole` may not be cut; one that is in `cut_form` too may be, once the op's cut
///  form has taken its place (op::cut_form), and is then as one in `repeated`.
/// A factor has one size in all operands.
struct FactorRule {
  std::vector<OperandFactors> operands;
  std::string whole;
  /// How reads may be partial sums, the outputs then being partial too. `one`: linear in each
  /// read apart (a product), exactly one of them may be partial; `all`: linear in all tensor reads
  /// together (a sum), so all of them must be; `first`: linear in the first read alone.
  enum class Linear : std::uint8_t { no, one, all, first } linear = Linear::no;
  Reduction reduction = Reduction::sum;
  std::string repeated = {};
  /// The sizes of the factors that share a dim with others.
  FactorSizes sizes = {};

  std::string cut_form = {};

  bool is_whole(char factor) const { return whole.find(factor) != std::string::npos; }
  /// The rule of the op or of its cut form, whichever the cuts ask for.
  FactorRule of_any_form() const;
};

/// The states of the outputs for given states of the reads under a rule, or why the op cannot run
/// on them. `outputs_claimed` decides only factors that occur in outputs alone. The sizes of the
/// rule and of the mesh say which factor of a product a cut belongs to.
struct Propagation {
  std::vector<Sharding> outputs;
  std::string problem;  // empty: legal
};
Propagation propagate(const FactorRule& rule, std::span<const Sharding> reads,
                      std::span<const Sharding> outputs_claimed, const Mesh& mesh);

}  // namespace fourfold::op
