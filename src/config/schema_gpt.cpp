// The family gpt: its keys, the relations between them, its sizes to start from.
#include "config/family.h"
#include "config/rules_words.h"
#include "config/schema_fields.h"

namespace fourfold::config {
namespace {

using model::GptSpec;

std::vector<Key> gpt_keys() {
  return {
      {.path = "model.num_layers",
       .meaning = "Transformer blocks.",
       .field = at(&Config::gpt, &GptSpec::num_layers),
       .fallback = "4",
       .bounds = between(1, most_layers),
       .cost = "Parameters, memory and time grow in proportion.",
       .example = "12",
       .elsewhere = {"num_blocks", "n_layer", "n_layers", "num_hidden_layers", "layers", "depth"}},
      {.path = "model.num_attention_heads",
       .meaning = "Attention heads of a block; they share hidden_size equally.",
       .field = at(&Config::gpt, &GptSpec::num_attention_heads),
       .fallback = "4",
       .bounds = between(1, most_width),
       .cost = "Little: the same arithmetic in smaller pieces.",
       .example = "12",
       .elsewhere = {"n_head", "n_heads", "num_heads", "heads"}},
      {.path = "model.hidden_size",
       .meaning = "Width of the residual stream.",
       .field = at(&Config::gpt, &GptSpec::hidden_size),
       .fallback = "128",
       .bounds = between(1, most_width),
       .cost = "Parameters and arithmetic grow with its square, activations in proportion.",
       .example = "768",
       .elsewhere = {"n_embed", "n_embd", "d_model", "dim", "model.width", "embed_dim",
                     "embedding_size", "hidden_dim"}},
      {.path = "model.ffn_hidden_size",
       .meaning = "Width inside the MLP of a block.",
       .field = at(&Config::gpt, &GptSpec::ffn_hidden_size),
       .fallback = "",
       .bounds = between(1, 4 * most_width),
       .cost = "The MLP's parameters, arithmetic and activations, two thirds of a block, grow in "
               "proportion.",
       .example = "3072",
       .elsewhere = {"intermediate_size", "n_inner", "d_ff", "ffn_dim", "mlp_hidden_size"},
       .derived_words = "4 * model.hidden_size",
       .derive = [](Config& config) { config.gpt.ffn_hidden_size = 4 * config.gpt.hidden_size; }},
      {.path = "model.max_position_embeddings",
       .meaning = "Positions the model has embeddings for: the longest text it can look at.",
       .field = at(&Config::gpt, &GptSpec::max_position_embeddings),
       .fallback = "",
       .bounds = between(1, most_tokens),
       .unit = "tokens",
       .cost = "hidden_size parameters a position.",
       .example = "1024",
       .elsewhere = {"max_seq_len", "n_positions", "n_ctx", "max_context_length", "max_positions"},
       .derived_words = "data.seq_length",
       .derive =
           [](Config& config) { config.gpt.max_position_embeddings = config.data.seq_length; }},
      {.path = "model.vocab_size",
       .meaning =
           "Tokens the model knows; 0 takes the tokenizer's number. Synthetic data needs it.",
       .field = at(&Config::gpt, &GptSpec::vocab_size),
       .fallback = "0",
       .bounds = between(0, most_vocabulary),
       .unit = "tokens",
       .cost =
           "hidden_size parameters a token; the head's arithmetic and logits grow in proportion.",
       .example = "50257",
       .elsewhere = {"n_vocab", "padded_vocab_size", "vocabulary_size"}},
      {.path = "model.dropout",
       .meaning = "Part of the embeddings, attention weights and residual branches set to zero in "
                  "training.",
       .field = at(&Config::gpt, &GptSpec::dropout),
       .fallback = "0",
       .bounds = from_zero_below_one(),
       .cost = "Above 0 some time in every block.",
       .example = "0.1",
       .elsewhere = {"attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop",
                     "attn_pdrop"},
       .on_resume = ResumeClass::overridable},
      {.path = "model.bias",
       .meaning = "Whether linear layers and norms have biases.",
       .field = at(&Config::gpt, &GptSpec::bias),
       .fallback = "true",
       .cost = "true: few parameters more, and their gradients.",
       .example = "false",
       .elsewhere = {"use_bias", "add_bias_linear", "add_qkv_bias"}},
      {.path = "model.tied_head",
       .meaning = "Whether the output head is the token embedding.",
       .field = at(&Config::gpt, &GptSpec::tied_head),
       .fallback = "true",
       .cost = "false: vocab_size x hidden_size parameters more.",
       .example = "false",
       .elsewhere = {"tie_word_embeddings", "weight_tying", "tie_embeddings", "share_embeddings",
                     "untie_embeddings_and_output_weights"}},
      {.path = "model.layer_norm_epsilon",
       .meaning = "Added to the variance in layer normalisation.",
       .field = at(&Config::gpt, &GptSpec::layer_norm_epsilon),
       .fallback = "1e-5",
       .bounds = above(0),
       .example = "1e-6",
       .elsewhere = {"norm_epsilon", "layernorm_epsilon", "layer_norm_eps", "norm_eps",
                     "rms_norm_eps"}},
      {.path = "model.init_stddev",
       .meaning = "Standard deviation of initial weights; residual projections divide it by sqrt(2 "
                  "num_layers).",
       .field = at(&Config::gpt, &GptSpec::init_stddev),
       .fallback = "0.02",
       .bounds = above(0),
       .example = "0.01",
       .elsewhere = {"init_method_std", "initializer_range", "init_std"}},
  };
}

Verdict heads_divide_width(const Config& c) {
  return divides("model.hidden_size", c.gpt.hidden_size, "model.num_attention_heads",
                 c.gpt.num_attention_heads);
}

Verdict columns_divide_width(const Config& c) {
  return divides("model.hidden_size", c.gpt.hidden_size, "parallel.tensor.y", c.plan.grid.y);
}

Verdict checkpoints_fit_gpt(const Config& c) {
  return checkpoints_fit_layers(c.plan.checkpointing, c.gpt.num_layers);
}

/// The ffn width is the columns of the first matrix of an MLP and the rows of the second one.
std::string gpt_size_key(const std::string& tensor, bool is_rows) {
  const bool is_ffn =
      tensor.find(".mlp.") != std::string::npos && is_rows == tensor.ends_with(".down.weight");
  return is_ffn ? "model.ffn_hidden_size" : "model.hidden_size";
}

constexpr std::string_view gpt3 = "GPT-3 (Brown et al. 2020), table 2.1";
constexpr std::int64_t gpt2_tokens = 50257;  // of GPT-2's byte-pair vocabulary

/// The batches of a GPT are chosen here: half a million tokens a step and more, as GPT-3 grows, and
/// few samples at once.
struct GptBatch {
  std::int64_t seq_length, global, micro;
};

TemplateSize gpt_size(std::string_view name, std::string_view source, std::int64_t layers,
                      std::int64_t heads, std::int64_t hidden, const GptBatch& batch,
                      std::int64_t vocabulary, const char* lr) {
  const auto number = [](std::int64_t value) { return format("{}", value); };
  TemplateSize size{name, source, {}, vocabulary};
  size.settings = {{"model.num_layers", number(layers)},
                   {"model.num_attention_heads", number(heads)},
                   {"model.hidden_size", number(hidden)}};
  if (vocabulary > 0) size.settings.emplace_back("model.vocab_size", number(vocabulary));
  size.settings.emplace_back("data.path", "data/bible.txt");
  size.settings.emplace_back("data.seq_length", number(batch.seq_length));
  size.settings.emplace_back("train.global_batch_size", number(batch.global));
  if (batch.micro < batch.global)
    size.settings.emplace_back("train.micro_batch_size", number(batch.micro));
  size.settings.emplace_back("optimizer.lr", lr);
  return size;
}

std::vector<TemplateSize> gpt_sizes() {
  return {
      gpt_size("0.8M", "nanoGPT's Shakespeare model for a CPU", 4, 4, 128, {64, 12, 12}, 0, "1e-3"),
      gpt_size("10M", "nanoGPT's Shakespeare model for a GPU", 6, 6, 384, {256, 64, 8}, 0, "1e-3"),
      gpt_size("124M", "GPT-2 small (Radford et al. 2019)", 12, 12, 768, {1024, 512, 4},
               gpt2_tokens, "6e-4"),
      gpt_size("350M", "GPT-2 medium (Radford et al. 2019)", 24, 16, 1024, {1024, 512, 4},
               gpt2_tokens, "3e-4"),
      gpt_size("760M", gpt3, 24, 16, 1536, {2048, 256, 2}, gpt2_tokens, "2.5e-4"),
      gpt_size("1.3B", gpt3, 24, 16, 2048, {2048, 512, 1}, gpt2_tokens, "2e-4"),
      gpt_size("2.7B", gpt3, 32, 32, 2560, {2048, 512, 1}, gpt2_tokens, "1.6e-4"),
      gpt_size("6.7B", gpt3, 32, 32, 4096, {2048, 1024, 1}, gpt2_tokens, "1.2e-4"),
      gpt_size("13B", gpt3, 40, 40, 5120, {2048, 1024, 1}, gpt2_tokens, "1e-4"),
      gpt_size("175B", gpt3, 96, 96, 12288, {2048, 1536, 1}, gpt2_tokens, "0.6e-4"),
  };
}

}  // namespace

FamilySchema gpt_schema() {
  return {.keys = gpt_keys(),
          .rules = {{{"model.hidden_size", "model.num_attention_heads"}, heads_divide_width},
                    {{"model.hidden_size", "parallel.tensor.y"}, columns_divide_width, true},
                    {{"memory.activation_checkpointing", "model.num_layers"}, checkpoints_fit_gpt}},
          .labels_key = "model.vocab_size",
          .length_key = "model.max_position_embeddings",
          .heads_key = "model.num_attention_heads",
          .size_key = gpt_size_key,
          .sizes = gpt_sizes(),
          .usual_size = "124M"};
}

}  // namespace fourfold::config
