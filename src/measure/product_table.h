// Which implementation computes which product, and what else several compute, fastest, as a table
// of lines. Not the timing: a caller hands that in, for a GPU, a CPU or a test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "machine/kernel_table.h"

namespace fourfold::measure {

/// Names of what computes a problem, the one that is preferred first.
using Implementations = std::function<std::vector<std::string>(const kernels::Problem&)>;
/// Seconds of a call.
using TimeCall = std::function<double(const kernels::Problem&, const std::string& implementation)>;

/// A later name must be faster by this part of the time of the best before it: what repeated
/// measurements of one kernel differ by, so that a table does not change without a reason.
inline constexpr double worth_changing = 0.02;

struct Timed {
  std::string implementation;
  double seconds = 0;
};
/// Times each implementation that is named once. Requires at least one name.
Timed fastest(const kernels::Problem& problem, const std::vector<std::string>& names,
              const TimeCall& time);

/// What a table is made of.
struct Choosing {
  Implementations implementations;
  TimeCall time;
  /// Scratch that an implementation wants for a problem; empty: lines say nothing of it.
  std::function<std::int64_t(const kernels::Problem&, const std::string& implementation)>
      workspace_bytes;
};

/// The same without the implementations that the target may not have.
Choosing allowed_by(const machine::Target& target, Choosing choosing);

/// The line that decides for this very problem; null where there is none.
const machine::KernelTable::Line* find_line(const std::vector<machine::KernelTable::Line>& lines,
                                            const kernels::Problem& problem);

/// A line for each different product among the problems (op, type, layout and sizes), one for each
/// convolution that several compute (op, type and shapes), and one for each kind of attention and
/// type, that of the first problem; others are passed over. Products and convolutions that only a
/// table does not tell apart (one that adds, one with another type of its result) are timed once
/// and get the scratch of the hungriest.
std::vector<machine::KernelTable::Line> table_lines(const std::vector<kernels::Problem>& problems,
                                                    const Choosing& choosing);

/// The same, where lines that are known already are taken as they are, with more scratch where a
/// problem wants it. Problems are timed from the first one on, and no other once `is_over`.
std::vector<machine::KernelTable::Line> table_lines_until(
    const std::function<bool()>& is_over, const std::vector<machine::KernelTable::Line>& known,
    const std::vector<kernels::Problem>& problems, const Choosing& choosing);

}  // namespace fourfold::measure
