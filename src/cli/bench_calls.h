// The kernel calls of a configuration's training step, and how a measured one is printed: what the
// benches of CPUs and GPUs share. Nothing is measured here.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"
#include "job/job.h"
#include "kernels/kernel.h"
#include "machine/kernel_table.h"

namespace fourfold::cli {

/// A kernel call of a step, and how often the step makes it.
struct Call {
  kernels::Problem problem;
  std::string chosen;  // the implementation in the program
  int count = 0;
};

/// Beside which rates stand; 0: not known.
struct Ceilings {
  double flops_per_s = 0, bytes_per_s = 0;
};

/// The different calls of the training step, those of `what` ("gemm", "attention", else all).
std::vector<Call> calls_of(const job::Job& job, const std::string& what);

/// A line each: floating-point operations of products and attention, bytes of all else.
void print_call_header();
void print_call(const Call& call, const std::string& implementation, double seconds,
                const Ceilings& ceilings);

/// The share of `ceiling` that `rate` reaches, both in one unit, as a column shows it: "18%"; "-"
/// where the ceiling is not known; ">100%" where the rate is higher, because more than the whole is
/// no share: the ceiling was measured while the machine was busy, or the operands stay in a cache.
std::string share_of(double rate, double ceiling);

/// After the calls of a step.
void print_step(double seconds);

/// Writes a table for run.kernel_table where `output` names a file, and says so.
void write_kernel_table(const machine::KernelTable& table, const std::string& output);

}  // namespace fourfold::cli
