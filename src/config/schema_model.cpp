// Rows of the schema: model and data.
#include "config/schema_fields.h"

namespace fourfold::config {

using model::GptSpec;

std::vector<Key> model_keys() {
  return {
      {.path = "model.kind",
       .meaning = "The family of the model.",
       .field = only("gpt"),
       .fallback = "gpt",
       .elsewhere = {"model_type", "architecture", "arch"}},
      {.path = "model.num_layers",
       .meaning = "Transformer blocks.",
       .field = at(&Config::model, &GptSpec::num_layers),
       .fallback = "4",
       .bounds = between(1, most_layers),
       .cost = "Parameters, memory and time grow in proportion.",
       .example = "12",
       .elsewhere = {"num_blocks", "n_layer", "n_layers", "num_hidden_layers", "layers", "depth"}},
      {.path = "model.num_attention_heads",
       .meaning = "Attention heads of a block; they share hidden_size equally.",
       .field = at(&Config::model, &GptSpec::num_attention_heads),
       .fallback = "4",
       .bounds = between(1, most_width),
       .cost = "Little: the same arithmetic in smaller pieces.",
       .example = "12",
       .elsewhere = {"n_head", "n_heads", "num_heads", "heads"}},
      {.path = "model.hidden_size",
       .meaning = "Width of the residual stream.",
       .field = at(&Config::model, &GptSpec::hidden_size),
       .fallback = "128",
       .bounds = between(1, most_width),
       .cost = "Parameters and arithmetic grow with its square, activations in proportion.",
       .example = "768",
       .elsewhere = {"n_embed", "n_embd", "d_model", "dim", "width", "embed_dim", "embedding_size",
                     "hidden_dim"}},
      {.path = "model.ffn_hidden_size",
       .meaning = "Width inside the MLP of a block.",
       .field = at(&Config::model, &GptSpec::ffn_hidden_size),
       .fallback = "",
       .bounds = between(1, 4 * most_width),
       .cost = "The MLP's parameters, arithmetic and activations, two thirds of a block, grow in "
               "proportion.",
       .example = "3072",
       .elsewhere = {"intermediate_size", "n_inner", "d_ff", "ffn_dim", "mlp_hidden_size"},
       .derived_words = "4 * model.hidden_size",
       .derive =
           [](Config& config) { config.model.ffn_hidden_size = 4 * config.model.hidden_size; }},
      {.path = "model.max_position_embeddings",
       .meaning = "Positions the model has embeddings for: the longest text it can look at.",
       .field = at(&Config::model, &GptSpec::max_position_embeddings),
       .fallback = "",
       .bounds = between(1, most_tokens),
       .unit = "tokens",
       .cost = "hidden_size parameters a position.",
       .example = "1024",
       .elsewhere = {"max_seq_len", "n_positions", "n_ctx", "max_context_length", "max_positions"},
       .derived_words = "data.seq_length",
       .derive =
           [](Config& config) { config.model.max_position_embeddings = config.data.seq_length; }},
      {.path = "model.vocab_size",
       .meaning =
           "Tokens the model knows; 0 takes the tokenizer's number. Synthetic data needs it.",
       .field = at(&Config::model, &GptSpec::vocab_size),
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
       .field = at(&Config::model, &GptSpec::dropout),
       .fallback = "0",
       .bounds = from_zero_below_one(),
       .cost = "Above 0 some time in every block.",
       .example = "0.1",
       .elsewhere = {"attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop",
                     "attn_pdrop"}},
      {.path = "model.bias",
       .meaning = "Whether linear layers and norms have biases.",
       .field = at(&Config::model, &GptSpec::bias),
       .fallback = "true",
       .cost = "true: few parameters more, and their gradients.",
       .example = "false",
       .elsewhere = {"use_bias", "add_bias_linear", "add_qkv_bias"}},
      {.path = "model.tied_head",
       .meaning = "Whether the output head is the token embedding.",
       .field = at(&Config::model, &GptSpec::tied_head),
       .fallback = "true",
       .cost = "false: vocab_size x hidden_size parameters more.",
       .example = "false",
       .elsewhere = {"tie_word_embeddings", "weight_tying", "tie_embeddings", "share_embeddings",
                     "untie_embeddings_and_output_weights"}},
      {.path = "model.layer_norm_epsilon",
       .meaning = "Added to the variance in layer normalisation.",
       .field = at(&Config::model, &GptSpec::layer_norm_epsilon),
       .fallback = "1e-5",
       .bounds = above(0),
       .example = "1e-6",
       .elsewhere = {"norm_epsilon", "layernorm_epsilon", "layer_norm_eps", "norm_eps",
                     "rms_norm_eps"}},
      {.path = "model.init_stddev",
       .meaning = "Standard deviation of initial weights; residual projections divide it by sqrt(2 "
                  "num_layers).",
       .field = at(&Config::model, &GptSpec::init_stddev),
       .fallback = "0.02",
       .bounds = above(0),
       .example = "0.01",
       .elsewhere = {"init_method_std", "initializer_range", "init_std"}},
  };
}

std::vector<Key> data_keys() {
  using data::DataSpec;
  return {
      {.path = "data.format",
       .meaning = "text: a text file, or a folder of them; megatron: a set of tokens, PREFIX.bin "
                  "and PREFIX.idx, as `fourfold data tokenize` writes; llmc: shards of tokens as "
                  "llm.c has them; synthetic: random tokens, for tests and timing.",
       .field = choice<data::Format>(at(&Config::data, &DataSpec::format),
                                     {"text", "megatron", "llmc", "synthetic"},
                                     {data::Format::text, data::Format::megatron,
                                      data::Format::llmc, data::Format::synthetic}),
       .fallback = "text",
       .example = "megatron",
       .elsewhere = {"dataset_type", "data_format"}},
      {.path = "data.path",
       .meaning = "The text, the PREFIX of the set, or the folder of shards, seen from the current "
                  "directory.",
       .field = at(&Config::data, &DataSpec::path),
       .fallback = "\"\"",
       .example = "data/bible.txt",
       .elsewhere = {"data_path", "data_dir", "dataset", "dataset_path", "train_data", "file"}},
      {.path = "data.blend",
       .meaning = "Several sets of tokens instead of data.path; each gives its share of the "
                  "samples, in proportion to the weights.",
       .field = at(&Config::data, &DataSpec::blend),
       .fallback = "[]",
       .example = "[{path: data/books, weight: 3}, {path: data/web, weight: 1}]",
       .elsewhere = {"data_blend", "blend_ratio", "datasets", "data_paths", "data.paths"}},
      {.path = "data.tokenizer",
       .meaning =
           "char: a token for each different character of the text; byte: 256 tokens, for "
           "any text; sentencepiece: a model that `fourfold data train-tokenizer` or another "
           "tool made; gpt2: byte pair encoding as GPT-2 has it.",
       .field = choice<data::TokenizerKind>(
           at(&Config::data, &DataSpec::tokenizer), {"char", "byte", "sentencepiece", "gpt2"},
           {data::TokenizerKind::character, data::TokenizerKind::byte,
            data::TokenizerKind::sentencepiece, data::TokenizerKind::gpt2}),
       .fallback = "char",
       .example = "byte",
       .elsewhere = {"tokenizer_type", "tokenizer_name"}},
      {.path = "data.tokenizer_path",
       .meaning =
           "sentencepiece: the .model file; gpt2: the folder with vocab.json and merges.txt. "
           "Its content is copied into the run directory.",
       .field = at(&Config::data, &DataSpec::tokenizer_path),
       .fallback = "\"\"",
       .example = "data/bible.model",
       .elsewhere = {"tokenizer_model", "vocab_file", "merge_file", "tokenizer_file"}},
      {.path = "data.split",
       .meaning = "The first part of the tokens, for training; the rest is for validation. The cut "
                  "moves back to where a document begins.",
       .field = at(&Config::data, &DataSpec::split),
       .fallback = "0.9",
       .bounds = inside_zero_one(),
       .example = "0.95",
       .elsewhere = {"train_split", "train_fraction", "val_split"}},
      {.path = "data.seq_length",
       .meaning = "Length of a sample.",
       .field = at(&Config::data, &DataSpec::seq_length),
       .fallback = "64",
       .bounds = between(1, most_tokens),
       .unit = "tokens",
       .cost = "Activations grow in proportion, the arithmetic of attention with its square.",
       .example = "1024",
       .elsewhere = {"block_size", "sequence_length", "seq_len", "max_seq_length",
                     "context_length"}},
      {.path = "data.mask_documents",
       .meaning =
           "Whether a token attends to its own document only; false: to all that comes before it "
           "in its sample, which is cut from documents that stand one behind the other.",
       .field = at(&Config::data, &DataSpec::mask_documents),
       .fallback = "false",
       .cost = "true: the shorter the documents, the less attention computes.",
       .example = "true",
       .elsewhere = {"reset_attention_mask", "intra_document_masking", "block_causal_mask",
                     "doc_mask", "document_mask"}},
      {.path = "data.restart_positions",
       .meaning =
           "Whether positions count from the beginning of each document; false: from that of "
           "the sample. The part of a document that a sample begins with counts from 0.",
       .field = at(&Config::data, &DataSpec::restart_positions),
       .fallback = "false",
       .example = "true",
       .elsewhere = {"reset_position_ids"}},
  };
}

}  // namespace fourfold::config
