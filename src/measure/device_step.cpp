#include "measure/device_step.h"

#include <algorithm>
#include <map>
#include <utility>

namespace fourfold::measure {
namespace {

/// Times of every implementation, each printed when it is known.
class Times {
 public:
  Times(const std::vector<Call>& calls, const DeviceKernels& kernels, const Print& print)
      : calls_(calls), kernels_(kernels), print_(print) {}

  Choosing choosing() {
    Choosing choosing = kernels_.choosing;
    choosing.time = [this](const kernels::Problem& problem, const std::string& name) {
      return time_s(problem, name);
    };
    return choosing;
  }

  /// All calls of a step by the fastest implementation.
  double step_s() {
    double seconds = 0;
    for (const Call& call : calls_) {
      const auto names = kernels_.choosing.implementations(call.problem);
      seconds +=
          call.count * fastest(call.problem, names,
                               [this](const kernels::Problem& problem, const std::string& name) {
                                 return time_s(problem, name);
                               })
                           .seconds;
    }
    return seconds;
  }

 private:
  double time_s(const kernels::Problem& problem, const std::string& name) {
    const Call& call = *std::ranges::find_if(calls_, [&](const Call& one) {
      return one.problem.op == problem.op && one.problem.shapes == problem.shapes &&
             one.problem.dtype == problem.dtype;
    });
    const auto key = std::pair(&call, name);
    const auto known = times_.find(key);
    if (known != times_.end()) return known->second;
    const double seconds = kernels_.choosing.time(call.problem, name);
    print_(call_line(call, name, seconds,
                     {kernels_.peak_flops_per_s(call.problem.dtype), kernels_.bytes_per_s}));
    return times_[key] = seconds;
  }

  const std::vector<Call>& calls_;
  const DeviceKernels& kernels_;
  const Print& print_;
  std::map<std::pair<const Call*, std::string>, double> times_;
};

/// What the lines before do not have.
void add_lines(const std::vector<machine::KernelTable::Line>& more, machine::KernelTable& table) {
  for (const machine::KernelTable::Line& line : more) {
    const bool is_attention = line.layout.empty();
    const bool is_known = is_attention && std::ranges::any_of(table.lines, [&](const auto& old) {
                            return old.op == line.op && old.dtype == line.dtype;
                          });
    if (!is_known) table.lines.push_back(line);
  }
}

}  // namespace

DeviceKernels allowed_by(const machine::Target& target, DeviceKernels kernels) {
  kernels.choosing = allowed_by(target, std::move(kernels.choosing));
  return kernels;
}

void measure_step(const std::vector<Call>& calls, const DeviceKernels& kernels, const Print& print,
                  machine::KernelTable& table) {
  print(call_header());
  Times times(calls, kernels, print);
  const double step_s = times.step_s();
  std::vector<kernels::Problem> problems;
  for (const Call& call : calls) problems.push_back(call.problem);
  add_lines(table_lines(problems, times.choosing()), table);
  print(step_line(step_s));
}

}  // namespace fourfold::measure
