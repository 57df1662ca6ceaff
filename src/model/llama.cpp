// B batch, T time, C hidden, G groups of heads, R heads of a group, D head width, F ffn width, V
// vocabulary, P positions.
#include "model/llama.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "model/rope.h"
#include "model/text_graph.h"

namespace fourfold::model {
namespace {

using graph::Builder;
using graph::ValueId;

class Llama : TextGraph {
 public:
  Llama(const LlamaSpec& spec, Builder& builder, TextUse use, const BatchShape& batch)
      : TextGraph(builder, use, batch), spec_(spec) {}

  /// Tokens (B, T) to logits (B, T, V); prefill and decode give the logits of one position.
  ValueId logits() {
    b_.set_label("embedding");
    ValueId x = b_.apply_one(op::Embedding{}, {ids("tokens"), wte()}, "embedding");
    if (spec_.wide_residual) x = b_.apply_one(op::Widen{}, {x}, "embedding.wide");
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
  Linear into_layer(bool has_bias, std::string_view label_of_gradient = "linear") const {
    return {1, spec_.init_stddev, has_bias, label_of_gradient};
  }
  Linear out_of_layer(std::int64_t inner_dims, bool has_bias) const {
    const double stddev =
        spec_.init_stddev / std::sqrt(2.0 * static_cast<double>(spec_.num_layers));
    return {inner_dims, stddev, has_bias};
  }

  ValueId wte() {
    return normal("wte.weight", {spec_.vocab_size, spec_.hidden_size}, spec_.init_stddev);
  }

  /// What is normed is read by products of that label, which make its gradient too.
  ValueId norm(ValueId x, const std::string& name, std::string_view label_of_readers) {
    b_.set_label("norm");
    const op::LayerNorm op{
        .epsilon = spec_.layer_norm_epsilon, .bias = false, .wide = is_wide(x), .centred = false};
    const ValueId gain = constant(name + ".gain", {spec_.hidden_size}, 1);
    const ValueId y = b_.apply(op, {x, gain}, name)[0];
    b_.set_labels(y, label_of_readers, label_of_readers);
    b_.set_label(label_of_readers);
    return y;
  }

  /// Queries and keys (B, T, G, R + 2, D), normed where the model does so, and turned.
  ValueId positioned(ValueId qkv, const std::string& name) {
    b_.set_label("attention");
    if (spec_.head_norm) {
      const ValueId q_gain = constant(name + ".q_norm.gain", {spec_.head_dim}, 1),
                    k_gain = constant(name + ".k_norm.gain", {spec_.head_dim}, 1);
      qkv = b_.apply(op::HeadNorm{spec_.layer_norm_epsilon}, {qkv, q_gain, k_gain},
                     name + ".normed")[0];
    }
    op::Rotary turn{.frequencies = rope_frequencies(spec_.rope, spec_.head_dim),
                    .factor = rope_factor(spec_.rope),
                    .positions = is_cached() ? spec_.max_position_embeddings : 0,
                    .documents = batch_.restarts_positions};
    std::vector<ValueId> reads = {qkv};
    if (is_cached()) reads.push_back(b_.field("step.position"));
    if (batch_.restarts_positions) reads.push_back(ids("document_starts"));
    return b_.apply_one(turn, std::move(reads), name + ".turned");
  }

  /// Its output and the gradient of its input are what it shares out by itself.
  ValueId attention(ValueId qkv, const std::string& name) {
    const ValueId y = attention_core(positioned(qkv, name), name);
    b_.set_labels(y, "attention", "linear");
    b_.set_label("linear");
    return y;
  }

  ValueId attention_core(ValueId qkv, const std::string& name) {
    if (!is_cached()) {
      std::vector<ValueId> reads = {qkv};
      if (batch_.masks_documents) reads.push_back(ids("document_starts"));
      op::Attention core;
      core.documents = batch_.masks_documents;
      core.grouped = true;
      return b_.apply(core, std::move(reads), name + ".core")[0];
    }
    const std::int64_t groups = spec_.num_key_value_heads,
                       positions = spec_.max_position_embeddings;
    const Shape shape = {batch_.samples, 2, positions, groups, spec_.head_dim};
    const ValueId cache =
        b_.given(name + ".cache", shape, op::Element::compute, graph::ValueRole::cache,
                 op::Op(op::Fill{.value = 0, .shape = shape}));
    const ValueId y =
        b_.given(name + ".core",
                 {batch_.samples, batch_.length, groups, spec_.heads_of_group(), spec_.head_dim},
                 op::Element::compute, graph::ValueRole::activation);
    b_.apply_to(op::AttentionCached{.positions = positions, .grouped = true},
                {qkv, b_.field("step.position")}, {cache, y});
    return y;
  }

  ValueId layer(ValueId x, const std::string& name) {
    const std::int64_t hidden = spec_.hidden_size, ffn = spec_.ffn_hidden_size;
    const std::int64_t groups = spec_.num_key_value_heads, heads = spec_.heads_of_group(),
                       width = spec_.head_dim;
    const AttentionBias biases = spec_.attention_bias;
    ValueId y = norm(x, name + ".ln1", "linear");
    y = linear(y, name + ".attn.qkv", {hidden, groups, heads + 2, width},
               into_layer(biases != AttentionBias::none, "attention"));
    y = attention(y, name + ".attn");
    y = linear(y, name + ".attn.out", {groups, heads, width, hidden},
               out_of_layer(3, biases == AttentionBias::all));
    x = add_branch(x, y, name + ".attn.residual");
    y = norm(x, name + ".ln2", "linear");
    y = linear(y, name + ".mlp.up", {hidden, 2, ffn}, into_layer(spec_.mlp_bias));
    y = b_.apply_one(op::Gated{}, {y}, name + ".mlp.gated");
    y = linear(y, name + ".mlp.down", {ffn, hidden}, out_of_layer(1, spec_.mlp_bias));
    return add_branch(x, y, name + ".mlp.residual");
  }

  const LlamaSpec& spec_;
};

}  // namespace

graph::ModelGraphs build(const LlamaSpec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes) {
  require(spec.num_attention_heads % spec.num_key_value_heads == 0, "the groups divide the heads");
  const auto write = [&](Builder& builder, TextUse use, const BatchShape& of_graph) {
    return Llama(spec, builder, use, of_graph).logits();
  };
  return text_graphs(write, batch, optimizer, writes, spec.num_layers,
                     spec.max_position_embeddings);
}

std::vector<ParameterCount> count_parameters(const LlamaSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, ffn = spec.ffn_hidden_size,
                     layers = spec.num_layers, width = spec.head_dim;
  const std::int64_t heads = spec.num_attention_heads * width,
                     all = heads + 2 * spec.num_key_value_heads * width;
  const bool has_qkv_bias = spec.attention_bias != AttentionBias::none,
             has_out_bias = spec.attention_bias == AttentionBias::all;
  std::vector<ParameterCount> counts = {
      {"token embedding", spec.vocab_size * hidden},
      {"attention",
       layers * ((all + heads) * hidden + (has_qkv_bias ? all : 0) + (has_out_bias ? hidden : 0))},
      {"mlp", layers * (3 * hidden * ffn + (spec.mlp_bias ? 2 * ffn + hidden : 0))},
      {"norms", (2 * layers + 1) * hidden + (spec.head_norm ? 2 * layers * width : 0)},
  };
  if (!spec.tied_head) counts.push_back({"head", spec.vocab_size * hidden});
  return counts;
}

double model_flops_per_step(const LlamaSpec& spec, std::int64_t global_batch, std::int64_t length) {
  const auto hidden = static_cast<double>(spec.hidden_size),
             ffn = static_cast<double>(spec.ffn_hidden_size),
             layers = static_cast<double>(spec.num_layers), time = static_cast<double>(length);
  const auto heads = static_cast<double>(spec.num_attention_heads * spec.head_dim),
             groups = static_cast<double>(spec.num_key_value_heads * spec.head_dim);
  const double forward_per_token =
      layers * (4 * hidden * (heads + groups) + 6 * hidden * ffn + 4 * time * heads) +
      2 * hidden * static_cast<double>(spec.vocab_size);
  return 3 * forward_per_token * time * static_cast<double>(global_batch);
}

std::string describe(const LlamaSpec& spec) {
  return format("Llama: {}, {} of {} in {}, {} wide, ffn {}, vocabulary {}{}{}",
                counted(spec.num_layers, "layer"), counted(spec.num_attention_heads, "head"),
                spec.head_dim, counted(spec.num_key_value_heads, "group"), spec.hidden_size,
                spec.ffn_hidden_size, spec.vocab_size, spec.head_norm ? ", head norms" : "",
                spec.tied_head ? ", tied head" : "");
}

std::int64_t num_layers(const LlamaSpec& spec) {
  return spec.num_layers;
}

LlamaSpec smallest_alike(LlamaSpec spec) {
  spec.num_layers = 1;                            // all layers divide alike
  if (spec.vocab_size == 0) spec.vocab_size = 1;  // padded to any grid
  return spec;
}

DataFacts data_facts(const LlamaSpec& spec) {
  return {.num_labels = spec.vocab_size, .picture = {}};
}

void settle(LlamaSpec& spec, const DataFacts& facts) {
  spec.vocab_size = facts.num_labels;
}

std::int64_t longest_text(const LlamaSpec& spec) {
  return spec.max_position_embeddings;
}

void shorten(LlamaSpec& spec, std::int64_t longest_text) {
  spec.max_position_embeddings = std::min(spec.max_position_embeddings, longest_text);
}

std::int64_t stream_width(const LlamaSpec& spec) {
  return spec.hidden_size;
}

}  // namespace fourfold::model
