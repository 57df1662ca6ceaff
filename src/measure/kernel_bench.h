// The kernels of one problem alone: operands of their own, called again and again. Operands are
// warm in the caches as far as they fit; in a step they are often not. Not a check of results
// (tests/numerics).
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
  /// Throws UserError(out_of_memory) when the operands do not fit.
  KernelBench(const std::vector<Contender>& contenders, const kernels::Problem& problem);
  KernelBench(std::string_view implementation, const kernels::Problem& problem,
              std::int64_t workspace_bytes)
      : KernelBench({{std::string(implementation), workspace_bytes}}, problem) {}

  /// Least time of a call of the first one, in seconds, over about `seconds` of calls, one call
  /// going before.
  double measure_s(double seconds);
  /// The same of all, in their order: rounds of all in turn, so that a disturbance of the machine
  /// meets all alike. One that is far slower than the best after the first round has no further
  /// one.
  std::vector<double> measure_all_s(double seconds_each);
  /// One call of the first one, for whoever times it.
  void call() { runs_.at(0)(operands_, workspace_); }

 private:
  double measure_s(const kernels::Run& run, double seconds);

  Memory memory_;
  std::vector<kernels::Tensor> operands_;
  kernels::Workspace workspace_;
  std::vector<kernels::Run> runs_;
};

}  // namespace fourfold::measure
