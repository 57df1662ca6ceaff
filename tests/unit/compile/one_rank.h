// A small GPT on one rank, or a stage of it, compiled: for what passes promise about order, memory
// and waits.
#pragma once

#include <algorithm>
#include <string_view>

#include "support/job_setup.h"

namespace fourfold::compile {

struct RunSetup : test::JobSetup {
  RunSetup() {
    gpt = {.num_layers = 3,
           .num_attention_heads = 2,
           .hidden_size = 8,
           .ffn_hidden_size = 32,
           .max_position_embeddings = 6,
           .vocab_size = 11,
           .dropout = 0.1};
    plan = {.global_batch_size = 6, .micro_batch_size = 2, .seq_length = 6};
    writes = model::Writes::samples;
  }
};

/// A target whose attention asks for scratch, so that workspaces take part.
inline machine::Target test_target() {
  machine::Target target{
      "cpu", 1, {{.op = "*", .dtype = std::nullopt, .implementation = "test"}}, {}};
  target.workspace_bytes = [](const std::string&, const op::Op& op, op::Shapes all, DType) {
    return op.is<op::Attention>() ? all[0].elements() * 4 : std::int64_t{0};
  };
  return target;
}

inline program::Bundle bundle_of(const RunSetup& setup) {
  return setup.job(test_target()).classes[0];
}

/// The training program of the second of three stages of a rank each.
inline program::Program middle_stage(bool overlaps) {
  RunSetup setup;
  setup.gpt.num_layers = 3;
  setup.plan.global_batch_size = 6 * setup.plan.micro_batch_size;
  setup.plan.overlap.send_recv = overlaps;
  plan::PlanSpec spec = setup.plan;
  const plan::Grid one{.data = 1};
  spec.pipeline = {.stages = 3, .layers = {1, 1, 1}, .grids = {one, one, one}};
  const auto [model, plan] = std::get<plan::PlannedModel>(plan::plan_model(setup.graphs(), spec));
  return program::bundle_of(compile(model, plan, test_target()), Rank(1))
      .at(op::ProgramKind::train);
}

inline std::size_t count_ops(const program::Program& program, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(program.instructions.begin(), program.instructions.end(),
                    [&](const auto& i) { return program::name(i) == name; }));
}

}  // namespace fourfold::compile
