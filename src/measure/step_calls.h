// The kernel calls of a training step, and the lines in which a measured one is shown: what the
// benches of CPUs and GPUs share. Nothing is measured here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "machine/kernel_table.h"
#include "program/program.h"

namespace fourfold::measure {

/// A kernel call of a step, and how often the step makes it.
struct Call {
  kernels::Problem problem;
  std::string chosen;  // the implementation in the program
  int count = 0;
};

/// The rates that others are shown beside; 0: not known.
struct Ceilings {
  double flops_per_s = 0, bytes_per_s = 0;
};

/// The different calls of the programs of a step on so many threads, those of `what` ("gemm",
/// "attention", else all).
std::vector<Call> calls_of(std::span<const program::Program* const> step, int threads,
                           const std::string& what);
std::vector<Call> calls_of(const program::Program& step, int threads, const std::string& what);

/// A line each: floating-point operations of products and attention, bytes of all else.
std::string call_header();
std::string call_line(const Call& call, const std::string& implementation, double seconds,
                      const Ceilings& ceilings);

/// The share of `ceiling` that `rate` reaches, both in one unit, as a column shows it: "18%"; "-"
/// where the ceiling is not known; ">100%" where the rate is higher, because more than the whole is
/// no share: the ceiling was measured while the machine was busy, or the operands stay in a cache.
std::string share_of(double rate, double ceiling);

/// The line that follows the calls of a step.
std::string step_line(double seconds);

}  // namespace fourfold::measure
