// Jobs in several layouts, compiled for no kernels, and what they must compute. Header only.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "program/job.h"
#include "specification/specify.h"
#include "support/job_setup.h"

namespace fourfold::verify {

struct EqualJob {
  std::string name;
  test::JobSetup setup;

  static machine::Target target() {
    machine::Target target{
        "cpu", 1, {{.op = "*", .dtype = std::nullopt, .implementation = "test"}}, {}};
    target.workspace_bytes = [](const std::string&, const op::Op&, op::Shapes, DType) {
      return std::int64_t{0};
    };
    return target;
  }
  program::Job job() const {
    const auto planned = plan::plan_model(setup.graphs(), setup.plan);
    const auto& [model, plan] = std::get<plan::PlannedModel>(planned);
    return compile::compile(model, plan, target());
  }
  program::Job specification() const {
    return specification::specify(
        model::build_serial(setup.model(),
                            {setup.samples(), setup.plan.seq_length, setup.plan.global_batch_size,
                             setup.masks_documents, setup.restarts_positions, setup.plan.chunks},
                            setup.optimizer, setup.writes));
  }
};

/// Eight samples of a GPT with an odd vocabulary on so many ranks, in two micro-batches.
inline EqualJob gpt_on(std::string name, const plan::Grid& grid) {
  EqualJob job{std::move(name), {}};
  job.setup.gpt = test::eight_heads();
  job.setup.gpt.dropout = 0.1;
  job.setup.plan = {
      .global_batch_size = 8, .micro_batch_size = 4 / (grid.z * grid.data), .seq_length = 4};
  job.setup.plan.grid = grid;
  job.setup.plan.compute = DType::f64;
  job.setup.writes = model::Writes::samples;
  return job;
}

inline EqualJob pipelined_gpt() {
  EqualJob job = gpt_on("gpt in stages", {.x = 2});
  job.setup.plan.pipeline.stages = 2;
  job.setup.plan.pipeline.schedule = pipeline::Schedule::one_f_one_b;
  job.setup.plan.pipeline.weight_delay = *pipeline::weight_delay_from("1");
  job.setup.plan.pipeline.grids = {{.x = 2}, {.data = 2}};
  return job;
}

inline EqualJob rounded_gpt() {
  EqualJob job = gpt_on("gpt in bf16", {.x = 2, .data = 2});
  job.setup.plan.compute = DType::bf16;
  job.setup.plan.rounds_gradients = true;
  job.setup.gpt.wide_residual = true;
  return job;
}

/// Six heads in so many groups, with biases and norms of heads.
inline EqualJob llama_on(std::string name, const plan::Grid& grid, std::int64_t groups) {
  EqualJob job = gpt_on(std::move(name), grid);
  job.setup.llama = {.num_layers = 2,
                     .num_attention_heads = 6,
                     .num_key_value_heads = groups,
                     .head_dim = 4,
                     .hidden_size = 16,
                     .ffn_hidden_size = 24,
                     .max_position_embeddings = 8,
                     .vocab_size = 37,
                     .attention_bias = model::AttentionBias::qkv,
                     .head_norm = true};
  return job;
}

inline EqualJob pipelined_llama() {
  EqualJob job = llama_on("llama in stages", {.x = 2}, 2);
  job.setup.plan.pipeline.stages = 2;
  job.setup.plan.pipeline.schedule = pipeline::Schedule::one_f_one_b;
  job.setup.plan.pipeline.grids = {{.x = 2}, {.y = 2}};
  return job;
}

inline EqualJob vgg_on(const plan::Grid& grid) {
  EqualJob job = gpt_on("vgg", grid);
  job.setup.vgg = model::VggSpec{.widths = {8, 0, 8, 0},
                                 .hidden = {16},
                                 .picture = {4, 4, 3},
                                 .num_classes = 5,
                                 .dropout = 0.1,
                                 .mean = {0.4, 0.5, 0.6},
                                 .deviation = {0.2, 0.25, 0.3}};
  job.setup.plan.seq_length = 1;
  job.setup.optimizer = graph::OptimizerSpec::of(op::Sgd{.nesterov = true});
  return job;
}

inline EqualJob unet_on(const plan::Grid& grid, bool by_loss) {
  EqualJob job = gpt_on(by_loss ? "unet by importance" : "unet", grid);
  job.setup.unet = model::UnetSpec{.picture = {4, 4, 3},
                                   .channels = 8,
                                   .channel_mult = {1, 2},
                                   .layers_per_level = 1,
                                   .attention_resolutions = {2},
                                   .num_heads = 4,
                                   .norm_groups = 4,
                                   .dropout = 0.1,
                                   .class_conditional = !by_loss,
                                   .num_classes = 5,
                                   .diffusion = {}};
  job.setup.unet->diffusion.steps = 6;
  if (by_loss) {
    job.setup.unet->diffusion.time_sampling = model::TimeSampling::importance;
    job.setup.unet->diffusion.average_decay = 0.9;
  }
  job.setup.plan.seq_length = 1;
  return job;
}

/// Layouts of all kinds.
inline std::vector<EqualJob> equal_jobs() {
  std::vector<EqualJob> jobs = {gpt_on("gpt on x and z", {.x = 2, .z = 2}),
                                gpt_on("gpt on y and data", {.y = 2, .data = 2}),
                                pipelined_gpt(),
                                rounded_gpt(),
                                llama_on("llama in groups on x and data", {.x = 2, .data = 2}, 2),
                                llama_on("llama in samples on x and y", {.x = 2, .y = 2}, 3),
                                pipelined_llama(),
                                vgg_on({.x = 2, .data = 2}),
                                unet_on({.x = 2, .z = 2}, false),
                                unet_on({.x = 2, .data = 2}, true)};
  jobs[0].setup.masks_documents = jobs[0].setup.restarts_positions = true;
  jobs[0].setup.gpt.tied_head = false;
  jobs[1].setup.plan.shard_states = true;
  jobs[1].setup.plan.chunks = 2;
  jobs[1].setup.plan.checkpointing = {.layers = 1};
  jobs[5].setup.masks_documents = jobs[5].setup.restarts_positions = true;
  jobs[5].setup.plan.checkpointing = {.layers = 1};
  return jobs;
}

}  // namespace fourfold::verify
