// Time to compile and to prove the steps of pipelines, and how it grows: twice the micro-batches
// are twice the instructions. CPU seconds of one thread, the fewest of all rounds, for other work
// on the machine only ever adds to them; "x half" is beside half as many micro-batches.
//   compile_bench                              the table: nine rounds
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
  spec.pipeline.stages = static_cast<std::int64_t>(wanted.stages);
  spec.pipeline.schedule = wanted.schedule;
  for (std::size_t stage = 0; stage < wanted.stages; ++stage)
    spec.pipeline.layers.push_back(static_cast<std::int64_t>(6 * (stage + 1) / wanted.stages) -
                                   static_cast<std::int64_t>(6 * stage / wanted.stages));
  const auto graphs = model::build(gpt, {1, spec.seq_length, spec.global_batch_size}, {});
  auto planned = plan::plan_model(graphs, spec);
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
    times.instructions += bundle.at(op::ProgramKind::train).instructions.size();
  return times;
}

std::string times_half(double now_s, double half_s) {
  return format("{:.3f} s | {}", now_s, half_s > 0 ? format("{:.2f}", now_s / half_s) : "");
}

/// Rounds of all numbers in turn, so that a machine whose speed changes meets neighbours alike.
void print_rows(Schedule schedule, std::size_t stages, const std::vector<std::int64_t>& micros,
                int rounds) {
  std::vector<Times> fastest(micros.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < micros.size(); ++i) {
      const Times times = measure({schedule, stages, micros[i]});
      Times& best = fastest[i];
      best = {times.instructions,
              round == 0 ? times.compile_s : std::min(best.compile_s, times.compile_s),
              round == 0 ? times.verify_s : std::min(best.verify_s, times.verify_s)};
    }
  for (std::size_t i = 0; i < micros.size(); ++i) {
    const Times half = i > 0 && micros[i] == 2 * micros[i - 1] ? fastest[i - 1] : Times{};
    std::printf("| %s | %zu | %ld | %zu | %s | %s |\n", std::string(to_string(schedule)).c_str(),
                stages, micros[i], fastest[i].instructions,
                times_half(fastest[i].compile_s, half.compile_s).c_str(),
                times_half(fastest[i].verify_s, half.verify_s).c_str());
  }
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
      print_rows(schedule, stages, {64, 128, 256, 512, 1024, 2048}, 9);
  return 0;
}

}  // namespace
}  // namespace fourfold

int main(int argc, char** argv) {
  return fourfold::run({argv + 1, argv + argc});
}
