#include "measure/cpu_choosing.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/cpu/target.h"
#include "measure/best_rate.h"
#include "measure/ceilings.h"
#include "measure/kernel_bench.h"

namespace fourfold::measure {
namespace {

/// Times of all that compute a problem, measured in turn when the first one is asked for.
class TimesInTurn {
 public:
  TimesInTurn(const machine::Target& target, double seconds_each, double most_flops)
      : target_(target), seconds_each_(seconds_each), most_flops_(most_flops) {}

  /// What the target chooses comes first.
  std::vector<std::string> implementations(const kernels::Problem& problem) const {
    std::vector<std::string> names = kernels::cpu::implementations(problem);
    const auto chosen = std::ranges::find(
        names, machine::choose(target_, problem.op, problem.shapes, problem.dtype));
    if (chosen != names.end()) std::rotate(names.begin(), chosen, chosen + 1);
    return names;
  }

  /// Seconds of the whole problem.
  double time_s(const kernels::Problem& problem, const std::string& implementation) {
    if (times_.empty() || problem.op != timed_.op || problem.shapes != timed_.shapes)
      measure(problem);
    return times_.at(implementation);
  }

 private:
  void measure(const kernels::Problem& problem) {
    const kernels::Problem smaller = cut_to(problem, most_flops_);
    const std::vector<std::string> names = implementations(problem);
    std::vector<Contender> contenders;
    for (const std::string& name : names)
      contenders.push_back(
          {name, target_.workspace_bytes(name, smaller.op, smaller.shapes, smaller.dtype)});
    const std::vector<double> seconds =
        KernelBench(contenders, smaller).measure_all_s(seconds_each_);
    const double scale =
        op::flops(problem.op, problem.shapes) / op::flops(smaller.op, smaller.shapes);
    timed_ = problem;
    times_.clear();
    for (std::size_t i = 0; i < names.size(); ++i) times_[names[i]] = scale * seconds[i];
  }

  const machine::Target& target_;
  double seconds_each_, most_flops_;
  kernels::Problem timed_;
  std::map<std::string, double> times_;
};

std::size_t num_contenders(const std::vector<kernels::Problem>& problems) {
  std::size_t count = 0;
  for (const kernels::Problem& problem : problems)
    count += kernels::cpu::implementations(problem).size();
  return count;
}

}  // namespace

kernels::Problem cut_to(const kernels::Problem& problem, double most_flops) {
  constexpr std::int64_t step = 64;
  const double flops = op::flops(problem.op, problem.shapes);
  if (!op::product_of(problem.op) || flops <= most_flops) return problem;
  const std::size_t num_reads = problem.shapes.size() - 1;
  const op::FactorRule rule = op::factors(problem.op, std::span(problem.shapes).first(num_reads));
  char largest = 0;
  std::int64_t size = 0;
  for (std::size_t i = 0; i < rule.operands.size(); ++i)
    for (std::size_t dim = 0; dim < problem.shapes[i].rank(); ++dim)
      if (problem.shapes[i][dim] > size) {
        size = problem.shapes[i][dim];
        largest = rule.operands[i][dim].front();
      }
  const double wanted = static_cast<double>(size) * most_flops / flops;
  const std::int64_t shorter =
      std::min(size, step * static_cast<std::int64_t>(std::ceil(wanted / step)));
  kernels::Problem smaller = problem;
  for (std::size_t i = 0; i < rule.operands.size(); ++i)
    for (std::size_t dim = 0; dim < smaller.shapes[i].rank(); ++dim)
      if (rule.operands[i][dim].front() == largest) smaller.shapes[i][dim] = shorter;
  return smaller;
}

std::vector<machine::KernelTable::Line> time_kernels(const std::vector<kernels::Problem>& problems,
                                                     const machine::Target& target,
                                                     double seconds) {
  std::vector<machine::KernelTable::Line> lines;
  if (problems.empty()) return lines;
  // Three rounds of 20 ms are enough for a kernel; the rest of the time is for warming up, and for
  // a machine with other work.
  constexpr double most_each_s = 0.06, rate_s = 0.05, share = 0.6;
  const double each_s =
      std::min(most_each_s, share * seconds / static_cast<double>(num_contenders(problems)));
  // A round has a call that warms up and one that counts; there are three.
  const double rate =
      measure_gemm_flops_per_s(problems.front().dtype, problems.front().threads, rate_s);
  const double end = now_s() + seconds;
  TimesInTurn times(target, each_s, each_s / 6 * rate);
  const Choosing choosing{
      .implementations = [&](const kernels::Problem& one) { return times.implementations(one); },
      .time = [&](const kernels::Problem& one,
                  const std::string& name) { return times.time_s(one, name); },
      .workspace_bytes = {}};
  for (const kernels::Problem& problem : problems) {
    if (now_s() >= end) break;
    if (find_line(lines, problem) != nullptr) continue;
    const auto more = table_lines({problem}, choosing);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

}  // namespace fourfold::measure
