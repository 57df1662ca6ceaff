#include "model/training.h"

#include <utility>

#include "graph/autodiff.h"
#include "graph/update.h"
#include "op/blocks.h"

namespace fourfold::model {
namespace {

using graph::Builder;
using graph::ValueId;

struct Loss {
  ValueId labels, lse;
};

/// The forward part from the logits to the sum of the loss.
Loss add_loss(Builder& builder, ValueId logits, const Shape& shape) {
  builder.set_label("loss");
  const ValueId labels = builder.input("labels", shape, op::Element::i32);
  const auto loss = builder.apply(op::CrossEntropy{}, {logits, labels}, "loss");
  builder.apply_to(op::LossSum{}, {loss[0], labels},
                   {builder.field("result.loss_sum"), builder.field("result.valid_count")});
  return {labels, loss[1]};
}

}  // namespace

graph::Graph training_graph(const Classifier& model, const graph::OptimizerSpec& optimizer) {
  Builder builder(op::ProgramKind::train);
  const ValueId logits = model.logits(builder, Use::train);
  const Loss loss = add_loss(builder, logits, model.labels);
  builder.set_phase(graph::Phase::backward);
  const double scale = 1.0 / static_cast<double>(model.labels_of_step);
  const ValueId gradient = builder.apply_one(op::CrossEntropyGradient{.scale = scale},
                                             {logits, loss.labels, loss.lse}, "logits/grad");
  graph::differentiate(builder, logits, gradient);
  graph::add_update(builder, graph::optimizer_of(optimizer), model.labels_of_step);
  return builder.take();
}

graph::Graph evaluation_graph(const Classifier& model) {
  Builder builder(op::ProgramKind::evaluate);
  const ValueId logits = model.logits(builder, Use::evaluate);
  const Loss loss = add_loss(builder, logits, model.labels);
  if (model.counts_correct) {
    const ValueId largest = builder.apply_one(op::LogitMax{}, {logits}, "logits.max");
    builder.apply_to(op::CountCorrect{}, {logits, loss.labels, largest},
                     {builder.field(op::correct_count_field)});
  }
  return builder.take();
}

graph::ModelGraphs with_state_graphs(std::vector<graph::Graph> graphs, std::int64_t num_layers) {
  graphs.push_back(graph::digest_graph(graphs));
  graphs.insert(graphs.begin(), graph::init_graph(graphs));
  return {std::move(graphs), num_layers};
}

}  // namespace fourfold::model
