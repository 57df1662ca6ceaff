#include "cli/bench_device.h"
#include "cli/config_source.h"
#include "screen/print.h"

#include <algorithm>
#include <map>
#include <utility>

namespace fourfold::cli {
namespace {

/// Layers of the shapes that scripts/bench-gpu trains.
std::vector<ConfigSource> sources(const BenchArguments& arguments) {
  if (!arguments.config.files.empty()) return {arguments.config};
  const auto made = [&](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"model.num_layers=1", "model.vocab_size=50304",
                             "data.format=synthetic", "data.seq_length=1024", "sample.tokens=0"});
    sets.insert(sets.end(), arguments.config.sets.begin(), arguments.config.sets.end());
    return ConfigSource{{}, sets};
  };
  return {
      made({"model.hidden_size=768", "model.num_attention_heads=12", "train.global_batch_size=16"}),
      made(
          {"model.hidden_size=1600", "model.num_attention_heads=25", "train.global_batch_size=8"})};
}

job::Job job_of(const ConfigSource& source, const BenchArguments& arguments) {
  config::Config config = load_config(source);
  config.device = "cuda";
  config.kernel_table.clear();  // another one is about to be measured
  if (!arguments.dtype.empty())
    config.plan.compute = arguments.dtype == "bf16" ? DType::bf16 : DType::f32;
  else if (source.files.empty())
    config.plan.compute = DType::bf16;
  job::resolve_model(config);
  return job::make_job(std::move(config));
}

/// Times of every implementation, each printed when it is known.
class Timed {
 public:
  Timed(const std::vector<Call>& calls, const DeviceKernels& kernels)
      : calls_(calls), kernels_(kernels) {}

  measure::Choosing choosing() {
    measure::Choosing choosing = kernels_.choosing;
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
      seconds += call.count *
                 measure::fastest(call.problem, names,
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
    print_call(call, name, seconds,
               {kernels_.peak_flops_per_s(call.problem.dtype), kernels_.bytes_per_s});
    return times_[key] = seconds;
  }

  const std::vector<Call>& calls_;
  const DeviceKernels& kernels_;
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

void bench_device(const BenchArguments& arguments, const DeviceKernels& kernels) {
  machine::KernelTable table;
  table.device = kernels.device;
  for (const ConfigSource& source : sources(arguments)) {
    const job::Job job = job_of(source, arguments);
    const std::vector<Call> calls = calls_of(job, "kernels");
    screen::print("%s, %s, micro-batch of %lld\n\n", kernels.device.c_str(),
                  std::string(to_string(job.config.plan.compute)).c_str(),
                  static_cast<long long>(job.config.plan.micro_batch_size));
    print_call_header();
    Timed timed(calls, kernels);
    const double step_s = timed.step_s();
    std::vector<kernels::Problem> problems;
    for (const Call& call : calls) problems.push_back(call.problem);
    add_lines(measure::table_lines(problems, timed.choosing()), table);
    print_step(step_s);
  }
  write_kernel_table(table, arguments.output);
}

}  // namespace fourfold::cli
