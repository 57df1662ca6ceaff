// B batch, T time, C hidden, H heads, D head width, F ffn width, V vocabulary, P positions.
#include "model/gpt.h"

#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "graph/builder.h"
#include "model/training.h"

namespace fourfold::model {
namespace {

using graph::Builder;
using graph::ValueId;

/// How a graph uses the model.
enum class GptUse { train, evaluate, prefill, decode };

class Gpt {
 public:
  Gpt(const GptSpec& spec, Builder& builder, GptUse use, const BatchShape& batch)
      : spec_(spec),
        b_(builder),
        use_(use),
        batch_(batch),
        samples_(batch.samples),
        shape_BT_({batch.samples, batch.length}) {}

  /// Tokens (B, T) to logits (B, T, V); prefill and decode give the logits of one position.
  ValueId logits() {
    b_.set_label("embedding");
    ValueId x = embed();
    for (std::int64_t i = 0; i < spec_.num_layers; ++i) {
      b_.set_layer(i);
      x = layer(x, format("blocks.{}", i));
    }
    b_.set_layer(std::nullopt);
    b_.set_label("head");
    if (use_ == GptUse::prefill || use_ == GptUse::decode)
      x = b_.apply_one(op::TakePosition{is_wide(x)}, {x, b_.field("step.index")}, "last");
    x = norm(x, "ln_f", "head");
    return head(x);
  }

 private:
  double dropout_rate() const { return use_ == GptUse::train ? spec_.dropout : 0; }
  bool cached() const { return use_ == GptUse::prefill || use_ == GptUse::decode; }
  double residual_stddev() const {
    return spec_.init_stddev / std::sqrt(2.0 * static_cast<double>(spec_.num_layers));
  }

  ValueId normal(const std::string& name, const Shape& shape, double stddev) {
    return b_.parameter(name, shape, op::InitNormal{random_stream(name), stddev, shape});
  }
  ValueId constant(const std::string& name, const Shape& shape, double value) {
    return b_.parameter(name, shape, op::Fill{value, shape});
  }
  ValueId wte() {
    return normal("wte.weight", {spec_.vocab_size, spec_.hidden_size}, spec_.init_stddev);
  }

  /// An input of one integer for each token.
  ValueId ids(const std::string& name) { return b_.input(name, shape_BT_, op::Element::i32); }

  /// True of the residual stream where it is kept in the type of sums.
  bool is_wide(ValueId x) const { return b_.graph().value(x).element == op::Element::accumulate; }

  ValueId dropout(ValueId x, const std::string& name) {
    if (dropout_rate() == 0) return x;
    const op::SampleWindow window{0, samples_, 0};
    return b_.apply_one(op::Dropout{random_stream(name), dropout_rate(), window, {}, is_wide(x)},
                        {x, b_.field("step.seed"), b_.field("step.step")}, name);
  }

  ValueId embed() {
    ValueId x = b_.apply_one(op::Embedding{}, {ids("tokens"), wte()}, "embedding");
    std::vector<ValueId> reads = {
        x, normal("wpe.weight", {spec_.max_position_embeddings, spec_.hidden_size},
                  spec_.init_stddev)};
    if (cached()) reads.push_back(b_.field("step.position"));
    if (batch_.restarts_positions) reads.push_back(ids("document_starts"));
    const op::AddPositions add{cached(), 0, batch_.restarts_positions, spec_.wide_residual};
    x = b_.apply_one(add, std::move(reads), "positions");
    return dropout(x, "embedding.dropout");
  }

  /// What is normed is read by products of that label, which make its gradient too.
  ValueId norm(ValueId x, const std::string& name, std::string_view label_of_readers) {
    b_.set_label("norm");
    std::vector<ValueId> reads = {x};
    reads.push_back(constant(name + ".gain", {spec_.hidden_size}, 1));
    if (spec_.bias) reads.push_back(constant(name + ".bias", {spec_.hidden_size}, 0));
    const op::LayerNorm op{spec_.layer_norm_epsilon, spec_.bias, is_wide(x)};
    const ValueId y = b_.apply(op, std::move(reads), name)[0];
    b_.set_labels(y, label_of_readers, label_of_readers);
    b_.set_label(label_of_readers);
    return y;
  }

  /// x W (+ bias): the last `inner_dims` dims of x are contracted with the first ones of the
  /// weight.
  ValueId linear(ValueId x, const std::string& name, const Shape& weight, std::int64_t inner_dims,
                 double stddev, std::string_view label_of_gradient = "linear") {
    const op::Contract product{.a_rows = 2, .b_rows = inner_dims};
    ValueId y = b_.apply_one(product, {x, normal(name + ".weight", weight, stddev)}, name);
    b_.set_labels(y, "linear", label_of_gradient);
    if (!spec_.bias) return y;
    Shape bias;
    for (auto dim = static_cast<std::size_t>(inner_dims); dim < weight.rank(); ++dim)
      bias.push_back(weight[dim]);
    const ValueId added = constant(name + ".bias", bias, 0);
    b_.set_labels(added, "bias", "bias");
    y = b_.apply_one(op::AddBias{}, {y, added}, name + ".biased");
    b_.set_labels(y, "linear", label_of_gradient);
    return y;
  }

  /// Its output and the gradient of its input are what it shares out by itself.
  ValueId attention(ValueId qkv, const std::string& name) {
    const ValueId y = attention_core(qkv, name);
    b_.set_labels(y, "attention", "linear");
    return y;
  }

  ValueId attention_core(ValueId qkv, const std::string& name) {
    const std::int64_t heads = spec_.num_attention_heads, width = spec_.hidden_size / heads;
    if (cached()) {
      const Shape shape = {samples_, 2, spec_.max_position_embeddings, heads, width};
      const ValueId cache =
          b_.given(name + ".cache", shape, op::Element::compute, graph::ValueRole::cache,
                   op::Op(op::Fill{.value = 0, .shape = shape}));
      const ValueId y =
          b_.given(name + ".core", {samples_, b_.graph().value(qkv).shape[1], heads, width},
                   op::Element::compute, graph::ValueRole::activation);
      b_.apply_to(op::AttentionCached{spec_.max_position_embeddings},
                  {qkv, b_.field("step.position")}, {cache, y});
      return y;
    }
    op::Attention core;
    std::vector<ValueId> reads = {qkv};
    if (batch_.masks_documents) reads.push_back(ids("document_starts"));
    if (dropout_rate() != 0) {
      core = {random_stream(name + ".dropout"), dropout_rate(), {0, samples_, 0}, 0, heads};
      reads.insert(reads.end(), {b_.field("step.seed"), b_.field("step.step")});
    }
    core.documents = batch_.masks_documents;
    return b_.apply(core, std::move(reads), name + ".core")[0];
  }

  /// What a branch gives is added to the residual stream.
  ValueId add_branch(ValueId x, ValueId branch, const std::string& name) {
    return is_wide(x) ? b_.apply_one(op::AddRounded{}, {x, branch}, name)
                      : b_.apply_one(op::Add{}, {x, branch}, name);
  }

  ValueId layer(ValueId x, const std::string& name) {
    const std::int64_t hidden = spec_.hidden_size, ffn = spec_.ffn_hidden_size;
    const std::int64_t heads = spec_.num_attention_heads, width = hidden / heads;
    ValueId y = norm(x, name + ".ln1", "linear");
    y = linear(y, name + ".attn.qkv", {hidden, 3, heads, width}, 1, spec_.init_stddev, "attention");
    y = attention(y, name + ".attn");
    y = linear(y, name + ".attn.out", {heads, width, hidden}, 2, residual_stddev());
    y = dropout(y, name + ".attn.residual_dropout");
    x = add_branch(x, y, name + ".attn.residual");
    y = norm(x, name + ".ln2", "linear");
    y = linear(y, name + ".mlp.up", {hidden, ffn}, 1, spec_.init_stddev);
    y = b_.apply_one(op::Gelu{}, {y}, name + ".mlp.gelu");
    y = linear(y, name + ".mlp.down", {ffn, hidden}, 1, residual_stddev());
    y = dropout(y, name + ".mlp.residual_dropout");
    return add_branch(x, y, name + ".mlp.residual");
  }

  ValueId head(ValueId x) {
    if (spec_.tied_head)
      return b_.apply_one(op::Contract{.a_rows = 2, .b_rows = 1, .transpose_b = true}, {x, wte()},
                          "logits");
    const ValueId weight =
        normal("head.weight", {spec_.hidden_size, spec_.vocab_size}, spec_.init_stddev);
    return b_.apply_one(op::Contract{.a_rows = 2, .b_rows = 1}, {x, weight}, "logits");
  }

  const GptSpec& spec_;
  Builder& b_;
  GptUse use_;
  const BatchShape& batch_;
  std::int64_t samples_;
  Shape shape_BT_;
};

graph::Graph text_graph(const GptSpec& spec, GptUse use, std::int64_t length) {
  Builder builder(use == GptUse::prefill ? op::ProgramKind::prefill : op::ProgramKind::decode);
  builder.set_feeds_whole();
  const BatchShape one_text{.samples = 1, .length = length};
  builder.set_role(Gpt(spec, builder, use, one_text).logits(), graph::ValueRole::output);
  return builder.take();
}

}  // namespace

graph::ModelGraphs build(const GptSpec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes) {
  require(spec.hidden_size % spec.num_attention_heads == 0, "the heads divide the hidden size");
  require(batch.length <= spec.max_position_embeddings,
          "a sample is no longer than the position table");
  const auto classifier = [&](const BatchShape& of_graph) {
    const auto logits = [&](Builder& builder, Use use) {
      const GptUse of = use == Use::train ? GptUse::train : GptUse::evaluate;
      return Gpt(spec, builder, of, of_graph).logits();
    };
    return Classifier{
        logits, {of_graph.samples, of_graph.length}, batch.global_batch * batch.length};
  };
  const BatchShape chunk = batch.of_chunk();
  std::vector<graph::Graph> graphs = {training_graph(classifier(chunk), optimizer),
                                      evaluation_graph(classifier(batch))};
  if (writes == Writes::samples) {
    graphs.push_back(text_graph(spec, GptUse::prefill, spec.max_position_embeddings));
    graphs.push_back(text_graph(spec, GptUse::decode, 1));
  }
  return with_state_graphs(std::move(graphs), spec.num_layers);
}

std::vector<ParameterCount> count_parameters(const GptSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, ffn = spec.ffn_hidden_size,
                     layers = spec.num_layers;
  const std::int64_t bias = spec.bias ? 1 : 0;
  std::vector<ParameterCount> counts = {
      {"token embedding", spec.vocab_size * hidden},
      {"position embedding", spec.max_position_embeddings * hidden},
      {"attention", layers * (4 * hidden * hidden + bias * 4 * hidden)},
      {"mlp", layers * (2 * hidden * ffn + bias * (hidden + ffn))},
      {"norms", (2 * layers + 1) * hidden * (1 + bias)},
  };
  if (!spec.tied_head) counts.push_back({"head", spec.vocab_size * hidden});
  return counts;
}

double model_flops_per_step(const GptSpec& spec, std::int64_t global_batch, std::int64_t length) {
  const auto hidden = static_cast<double>(spec.hidden_size),
             ffn = static_cast<double>(spec.ffn_hidden_size);
  const auto layers = static_cast<double>(spec.num_layers), time = static_cast<double>(length);
  const double forward_per_token =
      layers * (8 * hidden * hidden + 4 * hidden * ffn + 4 * time * hidden) +
      2 * hidden * static_cast<double>(spec.vocab_size);
  return 3 * forward_per_token * time * static_cast<double>(global_batch);
}

std::string describe(const GptSpec& spec) {
  return format("GPT: {}, {}, {} wide, ffn {}, vocabulary {}{}{}",
                counted(spec.num_layers, "layer"), counted(spec.num_attention_heads, "head"),
                spec.hidden_size, spec.ffn_hidden_size, spec.vocab_size,
                spec.bias ? "" : ", no biases", spec.tied_head ? ", tied head" : "");
}

std::int64_t num_layers(const GptSpec& spec) {
  return spec.num_layers;
}

GptSpec smallest_alike(GptSpec spec) {
  spec.num_layers = 1;                            // all layers divide alike
  if (spec.vocab_size == 0) spec.vocab_size = 1;  // padded to any grid
  return spec;
}

DataFacts data_facts(const GptSpec& spec) {
  return {.num_labels = spec.vocab_size, .picture = {}};
}

void settle(GptSpec& spec, const DataFacts& facts) {
  spec.vocab_size = facts.num_labels;
}

std::int64_t longest_text(const GptSpec& spec) {
  return spec.max_position_embeddings;
}

std::int64_t stream_width(const GptSpec& spec) {
  return spec.hidden_size;
}

}  // namespace fourfold::model
