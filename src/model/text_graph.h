// What the graphs of models that write text have in common: parameters, linear layers, the residual
// stream, the head, and which graphs there are. Not what a layer computes (gpt.h, llama.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "graph/builder.h"
#include "graph/optimizer_spec.h"
#include "model/batch_shape.h"

namespace fourfold::model {

/// How a graph uses a model that writes text.
enum class TextUse : std::uint8_t { train, evaluate, prefill, decode };

/// One graph that is being written. B samples, T tokens of each.
class TextGraph {
 public:
  TextGraph(graph::Builder& builder, TextUse use, const BatchShape& batch)
      : b_(builder), use_(use), batch_(batch), shape_BT_({batch.samples, batch.length}) {}

 protected:
  using ValueId = graph::ValueId;

  bool is_cached() const { return use_ == TextUse::prefill || use_ == TextUse::decode; }

  ValueId normal(const std::string& name, const Shape& shape, double stddev) {
    return b_.parameter(name, shape, op::InitNormal{random_stream(name), stddev, shape});
  }
  ValueId constant(const std::string& name, const Shape& shape, double value) {
    return b_.parameter(name, shape, op::Fill{value, shape});
  }
  /// An input of one integer for each token.
  ValueId ids(const std::string& name) { return b_.input(name, shape_BT_, op::Element::i32); }

  /// True of the residual stream where it is kept in the type of sums.
  bool is_wide(ValueId x) const { return b_.graph().value(x).element == op::Element::accumulate; }

  struct Linear {
    std::int64_t inner_dims = 1;  // the last ones of x, which are the first ones of the weight
    double stddev = 0;
    bool has_bias = false;
    std::string_view label_of_gradient = "linear";
  };
  /// x W (+ bias).
  ValueId linear(ValueId x, const std::string& name, const Shape& weight, const Linear& how);

  /// What a branch gives is added to the residual stream.
  ValueId add_branch(ValueId x, ValueId branch, const std::string& name);

  /// The one position whose logits are asked for, of prefill and decode; else all.
  ValueId positions_of_logits(ValueId x);
  /// By the embedding of tokens, or, where it is not tied, by a weight of its own.
  ValueId head(ValueId x, ValueId embedding, bool is_tied, double stddev);

  graph::Builder& b_;
  TextUse use_;
  const BatchShape& batch_;
  Shape shape_BT_;
};

/// Gives the logits of a model in a graph.
using WriteLogits =
    std::function<graph::ValueId(graph::Builder& builder, TextUse use, const BatchShape& batch)>;

/// All graphs of a model of so many layers, which is fed texts of up to so many tokens.
graph::ModelGraphs text_graphs(const WriteLogits& write, const BatchShape& batch,
                               const graph::OptimizerSpec& optimizer, Writes writes,
                               std::int64_t num_layers, std::int64_t longest_text);

}  // namespace fourfold::model
