#include "measure/product_table.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"

namespace fourfold::measure {

using Line = machine::KernelTable::Line;

Timed fastest(const kernels::Problem& problem, const std::vector<std::string>& names,
              const TimeCall& time) {
  require(!names.empty(), "a problem to be timed has an implementation");
  Timed best;
  for (const std::string& name : names) {
    const double seconds = time(problem, name);
    if (best.implementation.empty() || seconds < (1 - worth_changing) * best.seconds)
      best = {name, seconds};
  }
  return best;
}

std::vector<Line> product_lines(const std::vector<kernels::Problem>& problems,
                                const Implementations& implementations, const TimeCall& time) {
  std::vector<Line> lines;
  for (const kernels::Problem& problem : problems) {
    if (!op::product_of(problem.op)) continue;
    const machine::ProductSizes sizes = machine::product_sizes(problem.op, problem.shapes);
    Line line{.dtype = problem.dtype,
              .threads = problem.threads,
              .layout = sizes.layout,
              .m = sizes.m,
              .n = sizes.n,
              .k = sizes.k,
              .implementation = {},
              .op = std::string(op::name(problem.op))};
    const auto key = [](const Line& of) {
      return std::tie(of.dtype, of.threads, of.layout, of.m, of.n, of.k, of.op);
    };
    if (std::any_of(lines.begin(), lines.end(),
                    [&](const Line& other) { return key(other) == key(line); }))
      continue;
    const Timed best = fastest(problem, implementations(problem), time);
    line.implementation = best.implementation;
    line.gflops = static_cast<double>(
                      std::llround(op::flops(problem.op, problem.shapes) / best.seconds / 1e8)) /
                  10;
    lines.push_back(line);
  }
  return lines;
}

}  // namespace fourfold::measure
