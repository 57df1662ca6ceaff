#include "measure/cpu_step.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/cpu/target.h"
#include "measure/ceilings.h"
#include "measure/kernel_bench.h"
#include "measure/product_table.h"

namespace fourfold::measure {
namespace {

/// Seconds of a call by each implementation that has it.
using CallTimes = std::vector<std::pair<std::string, double>>;
CallTimes measure_call(const Call& call, const machine::Target& target, double seconds,
                       const Ceilings& ceilings, const Print& print) {
  const std::vector<std::string> names = kernels::cpu::implementations(call.problem);
  std::vector<Contender> contenders;
  for (const std::string& name : names)
    contenders.push_back({name, target.workspace_bytes(name, call.problem.op, call.problem.shapes,
                                                       call.problem.dtype)});
  const std::vector<double> times = KernelBench(contenders, call.problem).measure_all_s(seconds);
  for (std::size_t i = 0; i < names.size(); ++i)
    print(call_line(call, names[i], times[i], ceilings));
  CallTimes all;
  for (std::size_t i = 0; i < names.size(); ++i) all.emplace_back(names[i], times[i]);
  return all;
}

/// A product that both overwrites and adds has one line: the table does not tell them apart.
/// Attention of bf16, which several compute, has none: its lines would be for all shapes.
void add_line(machine::KernelTable& table, const Call& call, const CallTimes& times) {
  const bool is_chosen = times.size() > 1 && machine::is_row_of_cpu(call.problem.op);
  if (!(is_chosen || op::product_of(call.problem.op)) ||
      find_line(table.lines, call.problem) != nullptr)
    return;
  const auto lines = table_lines(
      {call.problem},
      {.implementations =
           [&](const auto&) {
             std::vector<std::string> names;
             for (const auto& [name, seconds] : times) names.push_back(name);
             return names;
           },
       .time =
           [&](const auto&, const std::string& name) {
             return std::ranges::find(times, name, &CallTimes::value_type::first)->second;
           },
       .workspace_bytes = {}});
  table.lines.insert(table.lines.end(), lines.begin(), lines.end());
}

}  // namespace

Ceilings measure_ceilings(DType dtype, int threads, double seconds_each) {
  const double seconds = std::min(0.5, 5 * seconds_each);
  return {measure_gemm_flops_per_s(dtype, threads, seconds),
          measure_triad_bytes_per_s(threads, seconds)};
}

void measure_cpu_step(const std::vector<Call>& calls, const machine::Target& target, double seconds,
                      const Ceilings& ceilings, const Print& print, machine::KernelTable& table) {
  print(call_header());
  double step_s = 0;
  for (const Call& call : calls) {
    const CallTimes times = measure_call(call, target, seconds, ceilings, print);
    step_s +=
        call.count * std::ranges::min_element(times, {}, &CallTimes::value_type::second)->second;
    add_line(table, call, times);
  }
  print(step_line(step_s));
}

}  // namespace fourfold::measure
