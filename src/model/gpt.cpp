// B batch, T time, C hidden, H heads, D head width, F ffn width, V vocabulary, P positions.
#include "model/gpt.h"

#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "graph/builder.h"
#include "model/text_graph.h"

namespace fourfold::model {
namespace {

using graph::Builder;
using graph::ValueId;

class Gpt : TextGraph {
 public:
  Gpt(const GptSpec& spec, Builder& builder, TextUse use, const BatchShape& batch)
      : TextGraph(builder, use, batch), spec_(spec) {}

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
    x = positions_of_logits(x);
    x = norm(x, "ln_f", "head");
    return head(x, wte(), spec_.tied_head, spec_.init_stddev);
  }

 private:
  double dropout_rate() const { return use_ == TextUse::train ? spec_.dropout : 0; }
  double residual_stddev() const {
    return spec_.init_stddev / std::sqrt(2.0 * static_cast<double>(spec_.num_layers));
  }
  Linear into_layer(std::string_view label_of_gradient = "linear") const {
    return {1, spec_.init_stddev, spec_.bias, label_of_gradient};
  }
  Linear out_of_layer(std::int64_t inner_dims) const {
    return {inner_dims, residual_stddev(), spec_.bias};
  }

  ValueId wte() {
    return normal("wte.weight", {spec_.vocab_size, spec_.hidden_size}, spec_.init_stddev);
  }

  ValueId dropout(ValueId x, const std::string& name) {
    if (dropout_rate() == 0) return x;
    const op::SampleWindow window{0, batch_.samples, 0};
    return b_.apply_one(op::Dropout{random_stream(name), dropout_rate(), window, {}, is_wide(x)},
                        {x, b_.field("step.seed"), b_.field("step.step")}, name);
  }

  ValueId embed() {
    ValueId x = b_.apply_one(op::Embedding{}, {ids("tokens"), wte()}, "embedding");
    std::vector<ValueId> reads = {
        x, normal("wpe.weight", {spec_.max_position_embeddings, spec_.hidden_size},
                  spec_.init_stddev)};
    if (is_cached()) reads.push_back(b_.field("step.position"));
    if (batch_.restarts_positions) reads.push_back(ids("document_starts"));
    const op::AddPositions add{is_cached(), 0, batch_.restarts_positions, spec_.wide_residual};
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

  /// Its output and the gradient of its input are what it shares out by itself.
  ValueId attention(ValueId qkv, const std::string& name) {
    const ValueId y = attention_core(qkv, name);
    b_.set_labels(y, "attention", "linear");
    return y;
  }

  ValueId attention_core(ValueId qkv, const std::string& name) {
    const std::int64_t heads = spec_.num_attention_heads, width = spec_.hidden_size / heads;
    if (is_cached()) {
      const Shape shape = {batch_.samples, 2, spec_.max_position_embeddings, heads, width};
      const ValueId cache =
          b_.given(name + ".cache", shape, op::Element::compute, graph::ValueRole::cache,
                   op::Op(op::Fill{.value = 0, .shape = shape}));
      const ValueId y =
          b_.given(name + ".core", {batch_.samples, b_.graph().value(qkv).shape[1], heads, width},
                   op::Element::compute, graph::ValueRole::activation);
      b_.apply_to(op::AttentionCached{spec_.max_position_embeddings},
                  {qkv, b_.field("step.position")}, {cache, y});
      return y;
    }
    op::Attention core;
    std::vector<ValueId> reads = {qkv};
    if (batch_.masks_documents) reads.push_back(ids("document_starts"));
    if (dropout_rate() != 0) {
      core = {random_stream(name + ".dropout"), dropout_rate(), {0, batch_.samples, 0}, 0, heads};
      reads.insert(reads.end(), {b_.field("step.seed"), b_.field("step.step")});
    }
    core.documents = batch_.masks_documents;
    return b_.apply(core, std::move(reads), name + ".core")[0];
  }

  ValueId layer(ValueId x, const std::string& name) {
    const std::int64_t hidden = spec_.hidden_size, ffn = spec_.ffn_hidden_size;
    const std::int64_t heads = spec_.num_attention_heads, width = hidden / heads;
    ValueId y = norm(x, name + ".ln1", "linear");
    y = linear(y, name + ".attn.qkv", {hidden, 3, heads, width}, into_layer("attention"));
    y = attention(y, name + ".attn");
    y = linear(y, name + ".attn.out", {heads, width, hidden}, out_of_layer(2));
    y = dropout(y, name + ".attn.residual_dropout");
    x = add_branch(x, y, name + ".attn.residual");
    y = norm(x, name + ".ln2", "linear");
    y = linear(y, name + ".mlp.up", {hidden, ffn}, into_layer());
    y = b_.apply_one(op::Gelu{}, {y}, name + ".mlp.gelu");
    y = linear(y, name + ".mlp.down", {ffn, hidden}, out_of_layer(1));
    y = dropout(y, name + ".mlp.residual_dropout");
    return add_branch(x, y, name + ".mlp.residual");
  }

  const GptSpec& spec_;
};

}  // namespace

graph::ModelGraphs build(const GptSpec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes) {
  require(spec.hidden_size % spec.num_attention_heads == 0, "the heads divide the hidden size");
  const auto write = [&](Builder& builder, TextUse use, const BatchShape& of_graph) {
    return Gpt(spec, builder, use, of_graph).logits();
  };
  return text_graphs(write, batch, optimizer, writes, spec.num_layers,
                     spec.max_position_embeddings);
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
