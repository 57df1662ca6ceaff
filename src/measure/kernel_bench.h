// One kernel alone: operands of its own, called again and again. Operands are warm in the caches as
// far as they fit; in a step they are often not. Not a check of results (tests/numerics).
#pragma once

#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "measure/memory.h"

namespace fourfold::measure {

/// A kernel with everything it needs. Token and label operands are spread over their table; other
/// operands hold numbers between 0 and 1, so that no result is subnormal or infinite.
class KernelBench {
 public:
  /// Throws UserError(out_of_memory) when its operands do not fit.
  KernelBench(std::string_view implementation, const kernels::Problem& problem,
              std::int64_t workspace_bytes);

  /// Least time of a call, in seconds, over about `seconds` of calls, one call going before.
  double measure_s(double seconds);
  /// One call, for whoever times it.
  void call() { run_(operands_, workspace_); }

 private:
  Memory memory_;
  std::vector<kernels::Tensor> operands_;
  kernels::Workspace workspace_;
  kernels::Run run_;
};

/// Least time of a call of each implementation: rounds of all of them in turn, so that a
/// disturbance of the machine meets all alike.
std::vector<double> measure_in_turn(std::vector<KernelBench>& benches, double seconds_each);

}  // namespace fourfold::measure
