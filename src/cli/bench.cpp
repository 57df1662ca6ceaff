#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/cuda_parts.h"
#include "cli/job.h"
#include "cli/kernel_table.h"
#include "kernels/cpu/target.h"
#include "measure/ceilings.h"
#include "measure/kernel_bench.h"

namespace fourfold::cli {
namespace {

/// A kernel call of a step, and how often the step makes it.
struct Call {
  kernels::Problem problem;
  std::string chosen;  // the implementation in the program
  int count = 0;
};

/// What a call does, against which ceiling.
struct Work {
  double amount;
  bool is_flops;  // otherwise bytes
};

struct Ceilings {
  double flops_per_s, bytes_per_s;
};

bool is_product(const op::Op& op) {
  return std::holds_alternative<op::Matmul>(op);
}
bool is_attention(const op::Op& op) {
  return std::holds_alternative<op::Attention>(op) ||
         std::holds_alternative<op::AttentionGradient>(op);
}

/// The configurations to measure: the one given, or layers like those of a character model and of
/// GPT-2 124M.
std::vector<ConfigSource> sources(const BenchArguments& arguments) {
  if (!arguments.config.files.empty()) return {arguments.config};
  const auto made = [&](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"model.num_layers=1", "data.format=synthetic", "data.seq_length=64",
                             "sample.tokens=0"});
    sets.insert(sets.end(), arguments.config.sets.begin(), arguments.config.sets.end());
    return ConfigSource{{}, sets};
  };
  return {made({"model.hidden_size=128", "model.num_attention_heads=4", "model.vocab_size=65",
                "model.bias=false", "train.global_batch_size=12"}),
          made({"model.hidden_size=768", "model.num_attention_heads=12", "model.vocab_size=50304",
                "train.global_batch_size=4"})};
}

Job job_of(const ConfigSource& source, const BenchArguments& arguments) {
  config::Config config = load_config(source);
  if (arguments.threads > 0) config.threads = arguments.threads;
  if (!arguments.dtype.empty())
    config.plan.compute = arguments.dtype == "fp64" ? DType::f64 : DType::f32;
  check_trainable(config);
  resolve_vocabulary(config);
  return make_job(std::move(config));
}

/// Adds the different calls of the training step.
void collect(const Job& job, const std::string& what, std::vector<Call>& calls) {
  const program::Program& step = job.bundle.at("train");
  for (const program::Instruction& instruction : step.instructions) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr) continue;
    if (what == "gemm" && !is_product(compute->op)) continue;
    if (what == "attention" && !is_attention(compute->op)) continue;
    // Which micro-batch or part it is does not change the work.
    const std::vector<Shape> shapes = step.operand_shapes(*compute);
    const auto place = std::find_if(calls.begin(), calls.end(), [&](const Call& call) {
      return op::name(call.problem.op) == op::name(compute->op) && call.problem.shapes == shapes &&
             call.problem.dtype == compute->dtype &&
             (!is_product(compute->op) || call.problem.op == compute->op);
    });
    if (place == calls.end())
      calls.push_back(
          {{compute->op, compute->dtype, shapes, job.target.threads}, compute->implementation, 1});
    else
      ++place->count;
  }
}

Work work_of(const Call& call) {
  const kernels::Problem& problem = call.problem;
  if (is_product(problem.op) || is_attention(problem.op))
    return {op::flops(problem.op, problem.shapes), true};
  return {op::traffic_bytes(problem.op, problem.shapes, problem.dtype), false};
}

std::string shape_text(const Call& call) {
  if (is_product(call.problem.op)) {
    const machine::ProductSizes sizes =
        machine::product_sizes(call.problem.op, call.problem.shapes);
    const bool adds = std::get<op::Matmul>(call.problem.op).accumulate;
    return format("{} {}x{}x{}{}", sizes.layout, sizes.m, sizes.n, sizes.k, adds ? " add" : "");
  }
  std::string text;
  for (const std::int64_t dim : call.problem.shapes[0].dims())
    text += format("{}{}", text.empty() ? "" : "x", dim);
  return text.empty() ? "scalar" : text;
}

void print_header() {
  std::printf("%-24s %-24s %-9s %5s %10s %14s %8s\n", "op", "shape", "kernel", "calls", "us a call",
              "rate", "ceiling");
}

void print_line(const Call& call, const std::string& implementation, double seconds,
                const Ceilings& ceilings) {
  const Work work = work_of(call);
  const double rate = work.amount / seconds;
  const double ceiling = work.is_flops ? ceilings.flops_per_s : ceilings.bytes_per_s;
  std::printf("%-24s %-24s %-9s %5d %10.1f %7.1f %s %7.0f%%%s\n",
              std::string(op::name(call.problem.op)).c_str(), shape_text(call).c_str(),
              implementation.c_str(), call.count, seconds * 1e6, rate / 1e9,
              work.is_flops ? "GFLOP/s" : "GB/s   ", 100 * rate / ceiling,
              implementation == call.chosen ? " *" : "");
  std::fflush(stdout);
}

/// Measures the call with every implementation that has it; the fastest one, and its time.
std::pair<std::string, double> measure_call(const Call& call, const Job& job, double seconds,
                                            const Ceilings& ceilings) {
  const std::vector<std::string> names =
      is_product(call.problem.op) ? kernels::cpu::matmul_implementations(call.problem.dtype)
                                  : std::vector<std::string>{call.chosen};
  std::vector<measure::KernelBench> benches;
  for (const std::string& name : names)
    benches.emplace_back(
        name, call.problem,
        job.target.workspace_bytes(name, call.problem.op, call.problem.shapes, call.problem.dtype));
  const std::vector<double> times = measure::measure_in_turn(benches, seconds);
  for (std::size_t i = 0; i < names.size(); ++i) print_line(call, names[i], times[i], ceilings);
  const auto best = std::min_element(times.begin(), times.end());
  return {names[static_cast<std::size_t>(best - times.begin())], *best};
}

machine::KernelTable::Line table_line(const Call& call, const std::string& best, double seconds) {
  const machine::ProductSizes sizes = machine::product_sizes(call.problem.op, call.problem.shapes);
  return {.dtype = call.problem.dtype,
          .threads = call.problem.threads,
          .layout = sizes.layout,
          .m = sizes.m,
          .n = sizes.n,
          .k = sizes.k,
          .implementation = best,
          .gflops = static_cast<double>(std::llround(
                        op::flops(call.problem.op, call.problem.shapes) / seconds / 1e8)) /
                    10};
}

/// A product that both overwrites and adds has one line: the table does not tell them apart.
void add_line(machine::KernelTable& table, const machine::KernelTable::Line& line) {
  const auto same = [&](const machine::KernelTable::Line& other) {
    return std::tie(other.dtype, other.threads, other.layout, other.m, other.n, other.k) ==
           std::tie(line.dtype, line.threads, line.layout, line.m, line.n, line.k);
  };
  if (std::none_of(table.lines.begin(), table.lines.end(), same)) table.lines.push_back(line);
}

Ceilings measure_ceilings(DType dtype, int threads, double seconds_each) {
  const double seconds = std::min(0.5, 5 * seconds_each);
  return {measure::measure_gemm_flops_per_s(dtype, threads, seconds),
          measure::measure_triad_bytes_per_s(threads, seconds)};
}

void bench_step(const BenchArguments& arguments) {
  machine::KernelTable table{kernel_cpu(), {}};
  for (const ConfigSource& source : sources(arguments)) {
    const Job job = job_of(source, arguments);
    std::vector<Call> calls;
    collect(job, arguments.what, calls);
    const DType dtype = job.config.plan.compute;
    const Ceilings ceilings = measure_ceilings(dtype, job.target.threads, arguments.seconds);
    std::printf("%s, %s, %d threads: product %.1f GFLOP/s, triad %.1f GB/s\n\n", table.cpu.c_str(),
                std::string(to_string(dtype)).c_str(), job.target.threads,
                ceilings.flops_per_s / 1e9, ceilings.bytes_per_s / 1e9);
    print_header();
    double step_s = 0;
    for (const Call& call : calls) {
      const auto [best, seconds] = measure_call(call, job, arguments.seconds, ceilings);
      step_s += seconds * call.count;
      if (is_product(call.problem.op)) add_line(table, table_line(call, best, seconds));
    }
    std::printf(
        "\nall calls of a step, each by its best kernel: %.1f ms"
        "   (* chosen today; a small operand stays in a cache and beats memory)\n\n",
        step_s * 1e3);
  }
  if (arguments.output.empty()) return;
  write_file_atomic(arguments.output, machine::to_text(table));
  std::printf("table: %s (use it with --set run.kernel_table=%s)\n", arguments.output.c_str(),
              arguments.output.c_str());
}

void bench_copy(const BenchArguments& arguments) {
  const int most = resolve_threads(arguments.threads);
  std::printf("%s\n\n%7s %12s %12s %16s %16s\n", kernel_cpu().c_str(), "threads", "copy GB/s",
              "triad GB/s", "fp32 GFLOP/s", "fp64 GFLOP/s");
  for (int threads = 1;; threads = std::min(2 * threads, most)) {
    const double seconds = 3 * arguments.seconds;
    std::printf("%7d %12.1f %12.1f %16.1f %16.1f\n", threads,
                measure::measure_copy_bytes_per_s(threads, seconds) / 1e9,
                measure::measure_triad_bytes_per_s(threads, seconds) / 1e9,
                measure::measure_gemm_flops_per_s(DType::f32, threads, seconds) / 1e9,
                measure::measure_gemm_flops_per_s(DType::f64, threads, seconds) / 1e9);
    std::fflush(stdout);
    if (threads >= most) return;
  }
}

}  // namespace

void bench(const BenchArguments& arguments) {
  if (arguments.device == "cuda")
    bench_cuda(arguments);
  else if (arguments.what == "copy")
    bench_copy(arguments);
  else
    bench_step(arguments);
}

}  // namespace fourfold::cli
