// A small GPT to be planned for a cluster. Header only.
#pragma once

#include <string>
#include <utility>

#include "machine/known_clusters.h"
#include "search/rank_grids.h"
#include "unit/compile/grid_setup.h"

namespace fourfold::search {

struct Planned {
  compile::GridSetup setup;
  machine::Cluster cluster;
  Question question;

  Planned(const std::string& machine, std::int64_t ranks, std::int64_t layers = 4)
      : Planned(machine::load_cluster(machine), ranks, layers) {}
  Planned(machine::Cluster on, std::int64_t ranks, std::int64_t layers) : cluster(std::move(on)) {
    setup.gpt = {.num_layers = layers,
                 .num_attention_heads = 16,
                 .hidden_size = 256,
                 .ffn_hidden_size = 1024,
                 .max_position_embeddings = 64,
                 .vocab_size = 512};
    setup.plan.seq_length = 64;
    setup.plan.global_batch_size = 64;
    setup.plan.micro_batch_size = 1;
    question.cluster = &cluster;
    question.ranks = ranks;
    question.spec = setup.plan;
    question.layers = layers;
    question.has_equal_layers = true;
    question.settle = [this](const plan::Grid& grid, std::int64_t stages) {
      plan::PlanSpec spec = question.spec;
      spec.grid = grid;
      spec.pipeline.stages = stages;
      return spec;
    };
    question.build = [this](std::int64_t of, const plan::PlanSpec& spec) {
      return training(of, spec);
    };
    question.compile = [this](const plan::PlanSpec& spec) {
      auto planned = plan::plan_model(training(question.layers, spec), spec);
      auto& [model, plan] = std::get<plan::PlannedModel>(planned);
      return compile::compile(model, plan, compile::GridSetup::target());
    };
  }
  Planned(const Planned&) = delete;

 private:
  /// The graph of a step, for a model of so many layers; nothing here looks at other programs.
  graph::ModelGraphs training(std::int64_t layers, const plan::PlanSpec& spec) const {
    compile::GridSetup one = setup;
    one.gpt.num_layers = layers;
    one.plan = spec;
    graph::ModelGraphs model = one.graphs();
    std::erase_if(model.graphs,
                  [](const graph::Graph& g) { return g.kind != op::ProgramKind::train; });
    return model;
  }
};

}  // namespace fourfold::search
