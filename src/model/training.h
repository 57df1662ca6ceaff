// What the graphs of every classifier of tokens, pictures and the like share: the loss of its
// logits, the gradients, the update.
#pragma once

#include <functional>
#include <string>

#include "graph/builder.h"
#include "graph/optimizer_spec.h"

namespace fourfold::model {

/// How a graph uses a model that is trained.
enum class Use : std::uint8_t { train, evaluate };

struct Classifier {
  /// Adds the model from its inputs to the logits, whose last dim are the classes.
  std::function<graph::ValueId(graph::Builder& builder, Use use)> logits;
  /// The labels of a micro-batch: all dims of the logits but the last.
  Shape labels;
  std::int64_t labels_of_step = 1;
  /// True if evaluations count the labels whose logit is the largest.
  bool counts_correct = false;
};

graph::Graph training_graph(const Classifier& model, const graph::OptimizerSpec& optimizer);
graph::Graph evaluation_graph(const Classifier& model);

/// Puts "init" before and "digest" after the graphs of a model.
graph::ModelGraphs with_state_graphs(std::vector<graph::Graph> graphs, std::int64_t num_layers);

}  // namespace fourfold::model
