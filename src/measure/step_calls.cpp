#include "measure/step_calls.h"

#include <algorithm>
#include <variant>

#include "base/format.h"

namespace fourfold::measure {
namespace {

/// True if two calls are alike; which micro-batch or part it is does not change the work.
bool is_same(const Call& call, const program::Compute& compute, const std::vector<Shape>& shapes) {
  return op::name(call.problem.op) == op::name(compute.op) && call.problem.shapes == shapes &&
         call.problem.dtype == compute.dtype &&
         (!op::product_of(compute.op) || call.problem.op == compute.op);
}

std::string shape_text(const kernels::Problem& problem) {
  if (op::product_of(problem.op)) {
    const machine::ProductSizes sizes = machine::product_sizes(problem.op, problem.shapes);
    return format("{} {}x{}x{}{}", sizes.layout, sizes.m, sizes.n, sizes.k,
                  op::with_accumulate(problem.op, false) == problem.op ? "" : " add");
  }
  std::string text;
  for (const std::int64_t dim : problem.shapes[0].dims())
    text += format("{}{}", text.empty() ? "" : "x", dim);
  return text.empty() ? "scalar" : text;
}

}  // namespace

namespace {

void add_calls(const program::Program& step, int threads, const std::string& what,
               std::vector<Call>& calls) {
  for (const program::Instruction& instruction : step.instructions) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr) continue;
    if (what == "gemm" && op::work_class(compute->op) != op::WorkClass::product) continue;
    if (what == "attention" && op::work_class(compute->op) != op::WorkClass::core) continue;
    const std::vector<Shape> shapes = step.operand_shapes(*compute);
    const auto place = std::ranges::find_if(
        calls, [&](const Call& call) { return is_same(call, *compute, shapes); });
    if (place == calls.end())
      calls.push_back({{compute->op, compute->dtype, shapes, threads}, compute->implementation, 1});
    else
      ++place->count;
  }
}

}  // namespace

std::vector<Call> calls_of(std::span<const program::Program* const> step, int threads,
                           const std::string& what) {
  std::vector<Call> calls;
  for (const program::Program* program : step) add_calls(*program, threads, what, calls);
  return calls;
}

std::vector<Call> calls_of(const program::Program& step, int threads, const std::string& what) {
  const program::Program* const one = &step;
  return calls_of(std::span(&one, 1), threads, what);
}

std::string share_of(double rate, double ceiling) {
  if (ceiling <= 0) return "-";
  return rate > ceiling ? ">100%" : format("{:.0f}%", 100 * rate / ceiling);
}

std::string call_header() {
  return format("{:<24} {:<24} {:<12} {:>5} {:>10} {:>16} {:>8}\n", "op", "shape", "kernel",
                "calls", "us a call", "rate", "ceiling");
}

std::string call_line(const Call& call, const std::string& implementation, double seconds,
                      const Ceilings& ceilings) {
  const kernels::Problem& problem = call.problem;
  const bool is_flops = op::is_counted_in_flops(op::work_class(problem.op));
  const double rate = (is_flops ? op::flops(problem.op, problem.shapes)
                                : op::traffic_bytes(problem.op, problem.shapes, problem.dtype)) /
                      seconds;
  const double ceiling = is_flops ? ceilings.flops_per_s : ceilings.bytes_per_s;
  return format("{:<24} {:<24} {:<12} {:>5} {:>10.1f} {:>8.1f} {} {:>8}{}\n", op::name(problem.op),
                shape_text(problem), implementation, call.count, seconds * 1e6, rate / 1e9,
                is_flops ? "GFLOP/s" : "GB/s   ", share_of(rate, ceiling),
                implementation == call.chosen ? " *" : "");
}

std::string step_line(double seconds) {
  return format(
      "\nall calls of a step, each by its best kernel: {:.1f} ms"
      "   (* chosen today; above 100%: operands that stay in a cache, or a "
      "machine that was busy while its ceiling was measured)\n\n",
      seconds * 1e3);
}

}  // namespace fourfold::measure
