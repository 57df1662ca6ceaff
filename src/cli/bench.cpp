#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/bench_collectives.h"
#include "cli/bench_cuda.h"
#include "cli/bench_job.h"
#include "cli/bench_machine.h"
#include "cli/bench_reshard.h"
#include "cli/bench_step.h"
#include "cli/commands.h"
#include "job/job.h"
#include "kernels/cpu/target.h"
#include "measure/ceilings.h"
#include "measure/cuda_parts.h"
#include "measure/kernel_bench.h"
#include "measure/kernel_table.h"
#include "measure/product_table.h"
#include "measure/step_calls.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// The configurations to measure: the one given, or one for each of `layers`, whose settings go
/// before those of the command line.
std::vector<job::ConfigSource> sources(const BenchArguments& arguments,
                                       const std::vector<std::vector<std::string>>& layers) {
  if (!arguments.config.files.empty()) return {arguments.config};
  std::vector<job::ConfigSource> made;
  for (std::vector<std::string> sets : layers) {
    sets.insert(sets.end(), {"model.num_layers=1", "data.format=synthetic", "sample.tokens=0"});
    sets.insert(sets.end(), arguments.config.sets.begin(), arguments.config.sets.end());
    made.push_back({{}, std::move(sets)});
  }
  return made;
}

/// Layers like those of a character model and of GPT-2 124M.
const std::vector<std::vector<std::string>> cpu_layers = {
    {"model.hidden_size=128", "model.num_attention_heads=4", "model.vocab_size=65",
     "model.bias=false", "train.global_batch_size=12", "data.seq_length=64"},
    {"model.hidden_size=768", "model.num_attention_heads=12", "model.vocab_size=50304",
     "train.global_batch_size=4", "data.seq_length=64"}};
/// Layers of the shapes that scripts/bench-gpu trains.
const std::vector<std::vector<std::string>> gpu_layers = {
    {"model.hidden_size=768", "model.num_attention_heads=12", "train.global_batch_size=16",
     "model.vocab_size=50304", "data.seq_length=1024"},
    {"model.hidden_size=1600", "model.num_attention_heads=25", "train.global_batch_size=8",
     "model.vocab_size=50304", "data.seq_length=1024"}};

void write_table(const machine::KernelTable& table, const std::string& output) {
  if (output.empty()) return;
  write_file_atomic(output, machine::to_text(table));
  screen::print("table: %s (use it with --set run.kernel_table=%s)\n", output.c_str(),
                output.c_str());
}

/// Seconds of a call by each implementation that has it.
using Times = std::vector<std::pair<std::string, double>>;
Times measure_call(const measure::Call& call, const job::Job& job, double seconds,
                   const measure::Ceilings& ceilings) {
  const std::vector<std::string> names = kernels::cpu::implementations(call.problem);
  std::vector<measure::Contender> contenders;
  for (const std::string& name : names)
    contenders.push_back(
        {name, job.target.workspace_bytes(name, call.problem.op, call.problem.shapes,
                                          call.problem.dtype)});
  const std::vector<double> times =
      measure::KernelBench(contenders, call.problem).measure_all_s(seconds);
  for (std::size_t i = 0; i < names.size(); ++i)
    print_line(measure::call_line(call, names[i], times[i], ceilings));
  Times all;
  for (std::size_t i = 0; i < names.size(); ++i) all.emplace_back(names[i], times[i]);
  return all;
}

/// A product that both overwrites and adds has one line: the table does not tell them apart.
/// Attention of bf16, which several compute, has none: its lines would be for all shapes.
void add_line(machine::KernelTable& table, const measure::Call& call, const Times& times) {
  const bool is_chosen = times.size() > 1 && machine::is_row_of_cpu(call.problem.op);
  if (!(is_chosen || op::product_of(call.problem.op)) ||
      measure::find_line(table.lines, call.problem) != nullptr)
    return;
  const auto lines = measure::table_lines(
      {call.problem},
      {.implementations =
           [&](const auto&) {
             std::vector<std::string> names;
             for (const auto& [name, seconds] : times) names.push_back(name);
             return names;
           },
       .time =
           [&](const auto&, const std::string& name) {
             return std::ranges::find(times, name, &Times::value_type::first)->second;
           },
       .workspace_bytes = {}});
  table.lines.insert(table.lines.end(), lines.begin(), lines.end());
}

/// What is left of a device's kernels where those alone count that the job's target may have.
measure::DeviceKernels allowed_kernels(const measure::DeviceKernels& kernels,
                                       const machine::Target& target) {
  measure::DeviceKernels allowed = kernels;
  allowed.choosing = measure::allowed_by(target, kernels.choosing);
  return allowed;
}

measure::Ceilings measure_ceilings(DType dtype, int threads, double seconds_each) {
  const double seconds = std::min(0.5, 5 * seconds_each);
  return {measure::measure_gemm_flops_per_s(dtype, threads, seconds),
          measure::measure_triad_bytes_per_s(threads, seconds)};
}

void bench_kernels(const BenchArguments& arguments) {
  machine::KernelTable table{measure::kernel_cpu(), {}};
  for (const job::ConfigSource& source : sources(arguments, cpu_layers)) {
    const job::Job job = bench_job(source, arguments, "cpu");
    const DType dtype = job.settled.config().plan.compute;
    const measure::Ceilings ceilings =
        measure_ceilings(dtype, job.target.threads, arguments.seconds);
    screen::print("%s, %s, %s: product %.1f GFLOP/s, triad %.1f GB/s\n\n", table.cpu.c_str(),
                  std::string(to_string(dtype)).c_str(),
                  counted(job.target.threads, "thread").c_str(), ceilings.flops_per_s / 1e9,
                  ceilings.bytes_per_s / 1e9);
    print_line(measure::call_header());
    double step_s = 0;
    for (const measure::Call& call : measure::calls_of(job.bundle().at(op::ProgramKind::train),
                                                       job.target.threads, arguments.what)) {
      const Times times = measure_call(call, job, arguments.seconds, ceilings);
      step_s +=
          call.count * std::ranges::min_element(times, {}, &Times::value_type::second)->second;
      add_line(table, call, times);
    }
    print_line(measure::step_line(step_s));
  }
  write_table(table, arguments.output);
}

void bench_copy(const BenchArguments& arguments) {
  const int most = job::resolve_threads(arguments.threads);
  screen::print("%s\n\n%7s %12s %12s %16s %16s %16s\n", measure::kernel_cpu().c_str(), "threads",
                "copy GB/s", "triad GB/s", "fp32 GFLOP/s", "fp64 GFLOP/s", "bf16 GFLOP/s");
  for (int threads = 1;; threads = std::min(2 * threads, most)) {
    const double seconds = 3 * arguments.seconds;
    screen::print("%7d %12.1f %12.1f %16.1f %16.1f %16.1f\n", threads,
                  measure::measure_copy_bytes_per_s(threads, seconds) / 1e9,
                  measure::measure_triad_bytes_per_s(threads, seconds) / 1e9,
                  measure::measure_gemm_flops_per_s(DType::f32, threads, seconds) / 1e9,
                  measure::measure_gemm_flops_per_s(DType::f64, threads, seconds) / 1e9,
                  measure::measure_gemm_flops_per_s(DType::bf16, threads, seconds) / 1e9);
    std::fflush(stdout);
    if (threads >= most) return;
  }
}

/// What is measured together is started together, and the other way round.
void check_launcher(const BenchArguments& arguments) {
  const bool is_launched = arguments.launcher.launched_by_mpi();
  if (arguments.is_job && !is_launched)
    throw UserError(ExitCode::bad_config,
                    "--job measures the processes of a launcher, and none started this one; "
                    "start it with mpirun or srun, or leave --job out");
  if (!arguments.is_job && is_launched)
    throw UserError(ExitCode::bad_config,
                    "several processes were started, and each would measure alone; say --job to "
                    "measure them together");
}

}  // namespace

void print_line(const std::string& line) {
  screen::print("%s", line.c_str());
  std::fflush(stdout);
}

void bench_device_step(const BenchArguments& arguments, const measure::DeviceKernels& kernels) {
  machine::KernelTable table;
  table.device = measure::kernel_device().value_or("");
  for (const job::ConfigSource& source : sources(arguments, gpu_layers)) {
    const job::Job job = bench_job(source, arguments, "cuda");
    screen::print("%s, %s, micro-batch of %lld\n\n", table.device.c_str(),
                  std::string(to_string(job.settled.config().plan.compute)).c_str(),
                  static_cast<long long>(job.settled.plan().micro_batch_size));
    measure::measure_step(
        measure::calls_of(job.bundle().at(op::ProgramKind::train), job.target.threads, "kernels"),
        allowed_kernels(kernels, job.target), print_line, table);
  }
  write_table(table, arguments.output);
}

void bench(const BenchArguments& arguments) {
  if (arguments.what == "machine" || arguments.what == "step" || arguments.what == "reshard" ||
      arguments.what == "collectives")
    check_launcher(arguments);
  if (arguments.what == "machine")
    bench_machine(arguments);
  else if (arguments.what == "step")
    bench_step(arguments);
  else if (arguments.what == "reshard")
    bench_reshard(arguments);
  else if (arguments.what == "collectives")
    bench_collectives(arguments);
  else if (arguments.device == "cuda")
    bench_cuda(arguments);
  else if (arguments.what == "copy")
    bench_copy(arguments);
  else
    bench_kernels(arguments);
}

}  // namespace fourfold::cli
