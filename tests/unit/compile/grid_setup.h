// A model compiled for a grid, without kernels. Header only.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/format.h"
#include "compile/compile.h"
#include "model/model.h"

namespace fourfold::compile {

struct GridSetup {
  model::GptSpec gpt{.num_layers = 2,
                     .num_attention_heads = 8,
                     .hidden_size = 32,
                     .ffn_hidden_size = 128,
                     .max_position_embeddings = 8,
                     .vocab_size = 37};
  std::optional<model::VggSpec> vgg = {};    // in place of the GPT; then seq_length is 1
  std::optional<model::UnetSpec> unet = {};  // likewise
  plan::PlanSpec plan{.global_batch_size = 8, .micro_batch_size = 1, .seq_length = 8};
  bool writes_text = false;

  std::int64_t x() const { return plan.grid.x; }
  std::int64_t y() const { return plan.grid.y; }
  std::int64_t z() const { return plan.grid.z; }
  std::int64_t data() const { return plan.grid.data; }

  /// A grid of this size, with a step of `accumulation` micro-batches.
  void set_grid(const plan::Grid& grid, std::int64_t accumulation = 2) {
    plan.grid = grid;
    plan.global_batch_size = plan.micro_batch_size * accumulation * grid.z * grid.data;
  }

  model::Spec spec() const {
    if (unet) return *unet;
    return vgg ? model::Spec(*vgg) : model::Spec(gpt);
  }
  graph::ModelGraphs graphs() const {
    const auto batching = std::get<plan::Batching>(plan::solve_batching(plan));
    return model::build(spec(),
                        {.samples = batching.samples(),
                         .length = batching.length,
                         .global_batch = batching.global_batch,
                         .chunks = batching.chunks},
                        {}, writes_text ? model::Writes::samples : model::Writes::nothing);
  }
  plan::Plan solved(const graph::ModelGraphs& model) const {
    auto solved = plan::make_plan(model, plan);
    return std::get<plan::Plan>(std::move(solved));
  }
  static machine::Target target() {
    machine::Target target{
        "cpu", 1, {{.op = "*", .dtype = std::nullopt, .implementation = "test"}}, {}};
    target.workspace_bytes = [](const std::string&, const op::Op&, op::Shapes, DType) {
      return std::int64_t{0};
    };
    return target;
  }
  program::Job job() const {
    const graph::ModelGraphs model = graphs();
    return compile(model, solved(model), target());
  }
  program::Bundle bundle() const { return job().classes[0]; }
  program::Program train() const { return bundle().at(op::ProgramKind::train); }
};

inline std::string text_of(const plan::Grid& grid) {
  return format("x {} y {} z {} data {}", grid.x, grid.y, grid.z, grid.data);
}

/// All grids with degrees from the list and at most so many ranks.
inline std::vector<plan::Grid> grids_of(const std::vector<std::int64_t>& degrees,
                                        std::int64_t max_ranks) {
  std::vector<plan::Grid> grids;
  for (const std::int64_t x : degrees)
    for (const std::int64_t y : degrees)
      for (const std::int64_t z : degrees)
        for (const std::int64_t data : degrees)
          if (x * y * z * data <= max_ranks)
            grids.push_back({.x = x, .y = y, .z = z, .data = data});
  return grids;
}

}  // namespace fourfold::compile
