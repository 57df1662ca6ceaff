// A small GPT and what the plan says about it. Header only.
#pragma once

#include <stdexcept>
#include <string>
#include <variant>

#include "model/gpt.h"
#include "plan/plan.h"
#include "support/infeasible_words.h"

namespace fourfold::plan {

struct GptSetup {
  model::GptSpec gpt{.num_layers = 2,
                     .num_attention_heads = 8,
                     .hidden_size = 32,
                     .ffn_hidden_size = 128,
                     .max_position_embeddings = 8,
                     .vocab_size = 37};
  PlanSpec spec{.micro_batch_size = 1, .seq_length = 8};

  GptSetup() { set_grid({.x = 2, .y = 2, .z = 2, .data = 2}); }
  void set_grid(const Grid& grid) {
    spec.grid = grid;
    spec.global_batch_size = spec.micro_batch_size * grid.z * grid.data;
  }

  Mesh mesh() const { return make_mesh(spec.grid); }
  graph::ModelGraphs graphs() const {
    return model::build(gpt, {spec.global_batch_size, spec.seq_length, spec.global_batch_size}, {});
  }
  std::variant<Layout, Infeasible> layout() const { return make_layout(graphs(), spec, mesh()); }
  Plan plan() const {
    auto plan = make_plan(graphs(), spec);
    if (const auto* infeasible = std::get_if<Infeasible>(&plan))
      throw std::runtime_error(test::in_words(*infeasible));
    return std::get<Plan>(std::move(plan));
  }
};

/// 14 heads of width 8.
inline GptSetup fourteen_heads(const Grid& grid) {
  GptSetup setup;
  setup.gpt.num_attention_heads = 14;
  setup.gpt.hidden_size = 112;
  setup.gpt.ffn_hidden_size = 224;
  setup.spec.micro_batch_size = 8;
  setup.set_grid(grid);
  return setup;
}

}  // namespace fourfold::plan
