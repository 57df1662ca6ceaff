// Time to compile and to prove the steps of pipelines, and how it grows: twice the micro-batches
// are twice the instructions. CPU seconds of one thread; "x half" is the median, over rounds, of
// the time beside that of half as many micro-batches in the same round.
//   compile_bench                              the table: medians of five rounds
//   compile_bench gpipe|1f1b STAGES MICROS...  some rows, one round: for a profiler
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "compile/compile.h"
#include "kernels/cpu/target.h"
#include "model/model.h"
#include "plan/plan.h"
#include "verify/verify_job.h"

namespace fourfold {
namespace {

using pipeline::Schedule;

struct Case {
  Schedule schedule;
  std::size_t stages;
  std::int64_t micros;
};

/// A GPT of six layers, one rank a stage, micro-batches of one sample.
struct Step {
  graph::ModelGraphs model;
  plan::Plan plan;
};

Step step_of(const Case& wanted) {
  const model::GptSpec gpt{.num_layers = 6,
                           .num_attention_heads = 8,
                           .hidden_size = 32,
                           .ffn_hidden_size = 64,
                           .max_position_embeddings = 6,
                           .vocab_size = 40};
  plan::PlanSpec spec{.global_batch_size = wanted.micros, .micro_batch_size = 1, .seq_length = 6};
  spec.pipeline = {static_cast<std::int64_t>(wanted.stages), wanted.schedule};
  for (std::size_t stage = 0; stage < wanted.stages; ++stage)
    spec.pipeline.layers.push_back(static_cast<std::int64_t>(6 * (stage + 1) / wanted.stages) -
                                   static_cast<std::int64_t>(6 * stage / wanted.stages));
  const auto graphs = model::build(gpt, {1, spec.seq_length, spec.global_batch_size}, {});
  auto planned = plan::plan_stages(graphs, spec);
  auto& staged = std::get<plan::PlannedModel>(planned);
  return {std::move(staged.model), std::move(staged.plan)};
}

double cpu_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Times {
  std::size_t instructions = 0;  // of all stages
  double compile_s = 0, verify_s = 0;
};

Times measure(const Case& wanted) {
  const Step step = step_of(wanted);
  const double begin_s = cpu_s();
  const program::Job job = compile::compile(step.model, step.plan, kernels::cpu::target(1));
  const double compiled_s = cpu_s();
  require(verify::verify(job).empty(), "the step is sound");
  Times times{0, compiled_s - begin_s, cpu_s() - compiled_s};
  for (const program::Bundle& bundle : job.classes)
    times.instructions += bundle.at("train").instructions.size();
  return times;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// What one number of micro-batches took in all rounds, and how often the time of half as many in
/// the same round.
struct Column {
  std::vector<double> seconds, times_half;

  void add(double now_s) { seconds.push_back(now_s); }
  void add(double now_s, double half_s) {
    seconds.push_back(now_s);
    times_half.push_back(now_s / half_s);
  }
  std::string text() const {
    return format("{:.3f} s | {}", median(seconds),
                  times_half.empty() ? "" : format("{:.2f}", median(times_half)));
  }
};

/// Rounds of all numbers in turn, so that a machine whose speed changes meets neighbours alike.
void print_rows(Schedule schedule, std::size_t stages, const std::vector<std::int64_t>& micros,
                int rounds) {
  std::vector<Column> compiling(micros.size()), verifying(micros.size());
  std::vector<std::size_t> instructions(micros.size());
  for (int round = 0; round < rounds; ++round) {
    Times before;
    for (std::size_t i = 0; i < micros.size(); ++i) {
      const Times times = measure({schedule, stages, micros[i]});
      if (i > 0 && micros[i] == 2 * micros[i - 1]) {
        compiling[i].add(times.compile_s, before.compile_s);
        verifying[i].add(times.verify_s, before.verify_s);
      } else {
        compiling[i].add(times.compile_s);
        verifying[i].add(times.verify_s);
      }
      instructions[i] = times.instructions;
      before = times;
    }
  }
  for (std::size_t i = 0; i < micros.size(); ++i)
    std::printf("| %s | %zu | %ld | %zu | %s | %s |\n", std::string(to_string(schedule)).c_str(),
                stages, micros[i], instructions[i], compiling[i].text().c_str(),
                verifying[i].text().c_str());
  std::fflush(stdout);
}

int run(const std::vector<std::string>& words) {
  std::puts(
      "| schedule | stages | micro-batches | instructions | compile | x half | verify | x half |");
  std::puts("|---|---|---|---|---|---|---|---|");
  if (words.size() > 2) {
    std::vector<std::int64_t> micros;
    for (std::size_t i = 2; i < words.size(); ++i) micros.push_back(std::stol(words[i]));
    print_rows(words[0] == "gpipe" ? Schedule::gpipe : Schedule::one_f_one_b, std::stoul(words[1]),
               micros, 1);
    return 0;
  }
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (const std::size_t stages : {1, 2, 4})
      print_rows(schedule, stages, {64, 128, 256, 512, 1024, 2048}, 5);
  return 0;
}

}  // namespace
}  // namespace fourfold

int main(int argc, char** argv) {
  return fourfold::run({argv + 1, argv + argc});
}
