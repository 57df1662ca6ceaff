// A model, its optimizer and its plan, as tests choose them: what all set-ups of jobs begin with.
// Header only.
#pragma once

#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

#include "compile/compile.h"
#include "model/model.h"
#include "plan/plan.h"

namespace fourfold::test {

struct JobSetup {
  model::GptSpec gpt;
  std::optional<model::LlamaSpec> llama;  // in place of the GPT
  std::optional<model::VggSpec> vgg;      // likewise; then seq_length is 1
  std::optional<model::UnetSpec> unet;    // likewise
  plan::PlanSpec plan;
  graph::OptimizerSpec optimizer;
  bool masks_documents = false, restarts_positions = false;
  model::Writes writes = model::Writes::nothing;

  model::Spec model() const {
    if (llama) return *llama;
    if (unet) return *unet;
    return vgg ? model::Spec(*vgg) : model::Spec(gpt);
  }
  bool is_of_pictures() const { return vgg || unet; }

  /// Samples of all ranks of a mesh at once; of a pipeline, its first one.
  std::int64_t samples() const { return plan.micro_batch_size * plan.grid.z * plan.grid.data; }
  graph::ModelGraphs graphs() const {
    return model::build(model(),
                        {samples(), plan.seq_length, plan.global_batch_size, masks_documents,
                         restarts_positions, plan.chunks},
                        optimizer, writes);
  }
  /// Throws std::bad_variant_access where there is no plan.
  plan::Plan solved(const graph::ModelGraphs& of) const {
    auto solved = plan::make_plan(of, plan);
    return std::get<plan::Plan>(std::move(solved));
  }
  plan::Plan solved() const { return solved(graphs()); }
  program::Job job(const machine::Target& target, const compile::PassOptions& passes = {}) const {
    const graph::ModelGraphs of = graphs();
    return compile::compile(of, solved(of), target, passes);
  }
};

/// Eight heads of width 4, and 37 tokens to tell apart.
inline model::GptSpec eight_heads() {
  return {.num_layers = 2,
          .num_attention_heads = 8,
          .hidden_size = 32,
          .ffn_hidden_size = 128,
          .max_position_embeddings = 8,
          .vocab_size = 37};
}

}  // namespace fourfold::test
