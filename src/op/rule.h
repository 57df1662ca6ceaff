// What every row of the op table states about itself: operands, shapes, factors, work.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "op/sharding.h"

namespace fourfold::op {

/// What an op does with an operand. `update` reads the old content and writes the new one.
enum class Role : std::uint8_t { read, write, update };

/// The element type of an operand: fixed, or that of the computation, or the type of its sums (see
/// accumulation_type).
enum class Element : std::uint8_t { compute, accumulate, i32, i64, u64, f64 };
DType element_dtype(Element element, DType compute);

struct Operand {
  std::string_view name;
  Role role = Role::read;
  Element element = Element::compute;
  /// Index of a read operand of the same shape and dtype whose memory this output may take over,
  /// element by element.
  std::optional<std::size_t> may_alias = std::nullopt;
};
/// Reads come first, then writes and updates: the order of operands everywhere.
using Operands = std::vector<Operand>;

/// The sharding rule, as an einsum states it: each dim of each operand carries a factor (a letter).
///  - A factor in reads and outputs may be cut: every operand that has it is cut alike.
///  - A factor in reads only is reduced over: cutting it makes the outputs partial on that axis,
///  a sum unless `reduction` says otherwise.
///  - A factor in outputs only may be cut freely; the op's attributes then say which part this rank
///  computes.
///  - A factor in `repeated` is not reduced over: outputs that lack it do not depend on it, and
///  ranks that cut it all compute them.
///  - A factor in `whole` may not be cut.
/// A factor has one size in all operands, except where an operand holds one element for each of
/// several equal blocks of another's dim: a cut in whole blocks then cuts both alike.
struct FactorRule {
  std::vector<std::string> operands;  // one letter per dim; "" for scalars
  std::string whole;
  /// Whether reads may be partial sums, the outputs then being partial too. `one`: linear in each
  /// read apart (a product), exactly one of them may be partial; `all`: linear in all tensor reads
  /// together (a sum), so all of them must be; `first`: linear in the first read alone.
  enum class Linear : std::uint8_t { no, one, all, first } linear = Linear::no;
  Reduction reduction = Reduction::sum;
  std::string repeated = {};
};

/// The states of the outputs for given states of the reads under a rule, or why the op cannot run
/// on them. `outputs_claimed` decides only factors that occur in outputs alone.
struct Propagation {
  std::vector<Sharding> outputs;
  std::string problem;  // empty: legal
};
Propagation propagate(const FactorRule& rule, std::span<const Sharding> reads,
                      std::span<const Sharding> outputs_claimed);

}  // namespace fourfold::op
