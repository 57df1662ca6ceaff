// The kernels of one problem alone: operands of their own, called again and again. One set of
// operands is warm in the caches as far as it fits; in a step operands are often not, which several
// sets in turn come close to. Not a check of results (tests/numerics).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "measure/memory.h"

namespace fourfold::measure {

/// An implementation, and the scratch that it wants.
struct Contender {
  std::string implementation;
  std::int64_t workspace_bytes = 0;
};

/// Kernels with everything they need, over the same operands. Token and label operands are spread
/// over their table; other operands hold numbers between 0 and 1, so that no result is subnormal or
/// infinite.
class KernelBench {
 public:
  /// Calls take so many sets of operands in turn. Throws UserError(out_of_memory) when they do not
  /// fit.
  KernelBench(const std::vector<Contender>& contenders, const kernels::Problem& problem,
              std::int64_t sets = 1);
  KernelBench(std::string_view implementation, const kernels::Problem& problem,
              std::int64_t workspace_bytes, std::int64_t sets = 1)
      : KernelBench({{std::string(implementation), workspace_bytes}}, problem, sets) {}

  /// Least time of a call of the first one, in seconds, over about `seconds` of calls, one call
  /// going before.
  double measure_s(double seconds);
  /// Seconds of a call of all, in their order, which take turns (take_turns.h) for about
  /// `seconds_each`, one call of each going before.
  std::vector<double> measure_all_s(double seconds_each);
  /// One call of the first one, for whoever times it.
  void call() { call(runs_.at(0)); }

 private:
  void call(const kernels::Run& run);
  double measure_s(const kernels::Run& run, double seconds);

  Memory memory_;
  std::vector<std::vector<kernels::Tensor>> sets_;
  std::size_t next_ = 0;  // the set of the next call
  kernels::Workspace workspace_;
  std::vector<kernels::Run> runs_;
};

/// What the operands of a problem take, in bytes.
std::int64_t operand_bytes(const kernels::Problem& problem);

}  // namespace fourfold::measure
