// Pipelines for tests: models, and stages of them on meshes of different shape.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "support/grids.h"
#include "support/outcome.h"
#include "verify/verify_job.h"

namespace fourfold::test::stages {

using pipeline::Schedule;

inline constexpr auto in_moments = Gradients::in_the_moments;

inline RunSetup gpt() {
  RunSetup setup;
  setup.gpt = {.num_layers = 6,
               .num_attention_heads = 8,
               .hidden_size = 32,
               .ffn_hidden_size = 64,
               .max_position_embeddings = 6,
               .vocab_size = 40,
               .dropout = 0.1};
  setup.plan = {.global_batch_size = 24, .micro_batch_size = 4, .seq_length = 6};
  setup.plan.compute = DType::f64;
  return setup;
}

/// Four stretches between poolings, and the linear layers.
inline RunSetup vgg() {
  RunSetup setup = picture_model();
  setup.vgg->widths = {16, 0, 32, 32, 0, 32, 0, 32, 0};
  setup.vgg->hidden = {32};
  setup.vgg->picture = {16, 16, 3};
  setup.vgg->num_classes = 16;
  setup.plan.global_batch_size = 24;
  setup.plan.micro_batch_size = 4;
  return setup;
}

/// Samples of a micro-batch: those of the first stage.
inline std::int64_t samples_of(const RunSetup& setup, const plan::Grid& first) {
  return setup.plan.micro_batch_size * first.z * first.data;
}

struct Pipeline {
  std::vector<plan::Grid> grids;
  std::vector<std::int64_t> last_layers;  // of all stages but the last
  std::int64_t stages_per_mesh = 1;
  plan::ReshardSpec reshard = {};

  plan::PipelineSpec with(Schedule schedule, std::int64_t num_layers) const {
    plan::PipelineSpec spec{.stages = static_cast<std::int64_t>(grids.size()) * stages_per_mesh,
                            .stages_per_mesh = stages_per_mesh,
                            .schedule = schedule,
                            .grids = grids,
                            .reshard = reshard};
    std::int64_t begin = 0;
    for (const std::int64_t last : last_layers) {
      spec.layers.push_back(last + 1 - begin);
      begin = last + 1;
    }
    spec.layers.push_back(num_layers - begin);
    return spec;
  }
};

inline program::Job compile_stages(const RunSetup& setup, const Pipeline& stages,
                                   Schedule schedule = Schedule::one_f_one_b,
                                   std::optional<std::int64_t> weight_delay = std::nullopt) {
  const auto graphs =
      model::build(setup.model(),
                   {samples_of(setup, stages.grids[0]), setup.plan.seq_length,
                    setup.plan.global_batch_size, setup.masks_documents, setup.restarts_positions},
                   setup.optimizer);
  plan::PlanSpec spec = setup.plan;
  spec.pipeline = stages.with(schedule, graphs.num_layers);
  auto [model, plan] = std::get<plan::PlannedModel>(plan::plan_model(graphs, spec));
  if (weight_delay)
    for (pipeline::Order& order : plan.orders)
      order = pipeline::with_weight_tasks(order, *weight_delay);
  program::Job job = compile::compile(
      model, plan,
      setup.reference_kernels ? kernels::cpu::reference_target() : kernels::cpu::target(1));
  const auto faults = verify::verify(job);
  for (const auto& fault : faults) ADD_FAILURE() << fault.rule << ": " << fault.message;
  require(faults.empty(), "only sound programs are run");
  return job;
}

/// The same samples, micro-batches and order of sums over them on one rank.
inline TrainingOutcome run_serial(RunSetup setup, const plan::Grid& first, const Tensors& weights) {
  setup.plan.micro_batch_size = samples_of(setup, first);
  return run_job(setup, GridRun::compile_job(setup), weights, in_moments);
}

inline std::string name_of(const Pipeline& pipeline, Schedule schedule) {
  std::string name = format("{} {}", to_string(schedule), pipeline.stages_per_mesh);
  for (const plan::Grid& grid : pipeline.grids)
    name += format(" | x {} y {} z {} data {}", grid.x, grid.y, grid.z, grid.data);
  return name;
}

inline const std::vector<Schedule> of_one_stage_a_mesh = {Schedule::gpipe, Schedule::one_f_one_b,
                                                          Schedule::eager_one_f_one_b};

inline const std::vector<Pipeline> two_stages = {
    {{{.x = 2, .data = 1}, {.y = 2, .data = 2}}, {1}},
    {{{.y = 2, .z = 2, .data = 1}, {.x = 2, .data = 1}}, {0}},
    {{{.data = 1}, {.x = 2, .y = 2, .z = 1, .data = 1}}, {2}}};
inline const std::vector<Pipeline> four_stages = {
    {{{.data = 1}, {.data = 1}, {.data = 1}, {.data = 1}}, {0, 1, 2}},
    {{{.x = 2, .data = 1}, {.data = 2}, {.y = 2, .data = 1}, {.z = 2, .data = 1}}, {0, 1, 2}},
    {{{.data = 2}, {.x = 2, .y = 2, .z = 1, .data = 1}, {.data = 1}, {.z = 2, .data = 2}},
     {0, 1, 2}}};

/// Two stages on each of two meshes, three on each of two, two on each of three, and all of a model
/// on one.
inline const std::vector<Pipeline> interleaved = {
    {{{.data = 1}, {.data = 1}}, {0, 1, 2}, 2},
    {{{.x = 2, .data = 1}, {.y = 2, .data = 2}}, {1, 2, 4}, 2},
    {{{.data = 1}, {.x = 2, .z = 2, .data = 1}}, {0, 1, 2, 3, 4}, 3},
    {{{.z = 2, .data = 1}, {.data = 1}, {.x = 2, .data = 1}}, {0, 1, 2, 3, 4}, 2},
    {{{.x = 2, .data = 1}}, {1, 3}, 3}};

}  // namespace fourfold::test::stages
