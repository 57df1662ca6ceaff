// A small GPT and what the plan says about it. Header only.
#pragma once

#include <stdexcept>
#include <string>
#include <variant>

#include "support/infeasible_words.h"
#include "support/job_setup.h"

namespace fourfold::plan {

struct GptSetup : test::JobSetup {
  GptSetup() {
    gpt = test::eight_heads();
    plan = {.micro_batch_size = 1, .seq_length = 8};
    writes = model::Writes::samples;
    set_grid({.x = 2, .y = 2, .z = 2, .data = 2});
  }
  void set_grid(const Grid& grid) {
    plan.grid = grid;
    plan.global_batch_size = samples();
  }

  Mesh mesh() const { return make_mesh(plan.grid); }
  std::variant<Layout, Infeasible> layout() const { return make_layout(graphs(), plan, mesh()); }
  /// Throws with the reasons where there is none.
  Plan planned() const {
    auto made = make_plan(graphs(), plan);
    if (const auto* infeasible = std::get_if<Infeasible>(&made))
      throw std::runtime_error(test::in_words(*infeasible));
    return std::get<Plan>(std::move(made));
  }
};

/// 14 heads of width 8.
inline GptSetup fourteen_heads(const Grid& grid) {
  GptSetup setup;
  setup.gpt.num_attention_heads = 14;
  setup.gpt.hidden_size = 112;
  setup.gpt.ffn_hidden_size = 224;
  setup.plan.micro_batch_size = 8;
  setup.set_grid(grid);
  return setup;
}

}  // namespace fourfold::plan
