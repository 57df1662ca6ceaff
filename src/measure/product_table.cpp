#include "measure/product_table.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

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

Choosing allowed_by(const machine::Target& target, Choosing choosing) {
  choosing.implementations = [fits = target.fits, all = std::move(choosing.implementations)](
                                 const kernels::Problem& problem) {
    std::vector<std::string> names = all(problem);
    std::erase_if(names, [&](const std::string& name) {
      return fits && !fits(name, problem.op, problem.shapes, problem.dtype);
    });
    return names;
  };
  return choosing;
}

namespace {

/// All but what was measured.
Line line_of(const kernels::Problem& problem) {
  const machine::ProductSizes sizes = machine::product_sizes(problem.op, problem.shapes);
  Line line{.dtype = problem.dtype,
            .threads = problem.threads,
            .layout = sizes.layout,
            .m = sizes.m,
            .n = sizes.n,
            .k = sizes.k,
            .implementation = {},
            .op = std::string(op::name(problem.op))};
  if (op::product_of(problem.op)) return line;
  line.layout = "";
  if (op::work_class(problem.op) == op::WorkClass::product) line.shapes = problem.shapes;
  return line;
}

/// The rows that a table may name (machine/kernel_table.h).
bool has_line(const op::Op& op) {
  return op::work_class(op) == op::WorkClass::product ||
         op::work_class(op) == op::WorkClass::core || op::product_of(op);
}

bool are_same(const Line& one, const Line& other) {
  const auto key = [](const Line& of) {
    return std::tie(of.dtype, of.threads, of.layout, of.m, of.n, of.k, of.op, of.shapes);
  };
  return key(one) == key(other);
}

double to_tenths(double value) {
  return static_cast<double>(std::llround(10 * value)) / 10;
}

}  // namespace

const Line* find_line(const std::vector<Line>& lines, const kernels::Problem& problem) {
  const Line wanted = line_of(problem);
  const auto place =
      std::ranges::find_if(lines, [&](const Line& line) { return are_same(line, wanted); });
  return place == lines.end() ? nullptr : &*place;
}

std::vector<Line> table_lines(const std::vector<kernels::Problem>& problems,
                              const Choosing& choosing) {
  return table_lines_until([] { return false; }, {}, problems, choosing);
}

std::vector<Line> table_lines_until(const std::function<bool()>& is_over,
                                    const std::vector<Line>& known,
                                    const std::vector<kernels::Problem>& problems,
                                    const Choosing& choosing) {
  std::vector<Line> lines;
  for (const kernels::Problem& problem : problems) {
    if (!has_line(problem.op)) continue;
    const std::vector<std::string> names = choosing.implementations(problem);
    Line line = line_of(problem);
    const bool is_convolution = !line.shapes.empty();
    if (names.size() == 1 && is_convolution) continue;
    auto place = std::ranges::find_if(lines, [&](const Line& old) { return are_same(old, line); });
    if (place == lines.end()) {
      if (const Line* before = find_line(known, problem)) {
        line = *before;
      } else if (is_over()) {
        continue;
      } else {
        const Timed best = fastest(problem, names, choosing.time);
        line.implementation = best.implementation;
        line.gflops = to_tenths(op::flops(problem.op, problem.shapes) / best.seconds / 1e9);
      }
      place = lines.insert(lines.end(), line);
    }
    if (choosing.workspace_bytes && (is_convolution || op::product_of(problem.op)))
      place->workspace_bytes = std::max(place->workspace_bytes.value_or(0),
                                        choosing.workspace_bytes(problem, place->implementation));
  }
  return lines;
}

}  // namespace fourfold::measure
