// Time to compile and to prove the steps of pipelines, and how it grows: twice the micro-batches
// are twice the instructions. CPU seconds of one thread.
//   compile_bench                              the table: the least of three rounds
//   compile_bench gpipe|1f1b STAGES MICROS...  some rows, one round: for a profiler
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
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
  const plan::PlanSpec spec{
      .global_batch_size = wanted.micros, .micro_batch_size = 1, .seq_length = 6};
  plan::StagesSpec stages{{}, {}, wanted.schedule};
  for (std::size_t stage = 0; stage < wanted.stages; ++stage) {
    stages.grids.push_back({.data = 1});
    if (stage + 1 < wanted.stages)
      stages.last_layers.push_back(static_cast<std::int64_t>(6 * (stage + 1) / wanted.stages) - 1);
  }
  const auto graphs = model::build(gpt, {1, spec.seq_length, spec.global_batch_size}, {});
  auto planned = plan::plan_stages(graphs, spec, stages);
  auto& staged = std::get<plan::StagedPlan>(planned);
  return {std::move(staged.model), std::move(staged.plan)};
}

double cpu_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Times {
  std::size_t instructions = 0;  // of all stages
  double compile_s = 0, verify_s = 0;
};

Times measure(const Case& wanted, int rounds) {
  const Step step = step_of(wanted);
  std::optional<Times> least;
  for (int round = 0; round < rounds; ++round) {
    const double begin_s = cpu_s();
    const program::Job job = compile::compile(step.model, step.plan, kernels::cpu::target(1));
    const double compiled_s = cpu_s();
    require(verify::verify(job).empty(), "the step is sound");
    const double verified_s = cpu_s();
    Times times{0, compiled_s - begin_s, verified_s - compiled_s};
    for (const program::Bundle& bundle : job.classes)
      times.instructions += bundle.at("train").instructions.size();
    if (!least) least = times;
    least->compile_s = std::min(least->compile_s, times.compile_s);
    least->verify_s = std::min(least->verify_s, times.verify_s);
  }
  return *least;
}

void print_rows(Schedule schedule, std::size_t stages, const std::vector<std::int64_t>& micros,
                int rounds) {
  for (const std::int64_t count : micros) {
    const Times times = measure({schedule, stages, count}, rounds);
    std::printf("| %s | %zu | %ld | %zu | %.3f s | %.3f s |\n",
                std::string(to_string(schedule)).c_str(), stages, count, times.instructions,
                times.compile_s, times.verify_s);
    std::fflush(stdout);
  }
}

int run(const std::vector<std::string>& words) {
  std::puts("| schedule | stages | micro-batches | instructions | compile | verify |");
  std::puts("|---|---|---|---|---|---|");
  if (words.size() > 2) {
    std::vector<std::int64_t> micros;
    for (std::size_t i = 2; i < words.size(); ++i) micros.push_back(std::stol(words[i]));
    print_rows(words[0] == "gpipe" ? Schedule::gpipe : Schedule::one_f_one_b, std::stoul(words[1]),
               micros, 1);
    return 0;
  }
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (const std::size_t stages : {1, 2, 4})
      print_rows(schedule, stages, {64, 128, 256, 512, 1024, 2048}, 3);
  return 0;
}

}  // namespace
}  // namespace fourfold

int main(int argc, char** argv) {
  return fourfold::run({argv + 1, argv + argc});
}
