// Rows of the schema: data.
#include <iterator>

#include "base/format.h"
#include "base/text.h"
#include "config/family.h"
#include "config/schema_fields.h"
#include "tokenizer/tokenizer_kind.h"

namespace fourfold::config {
namespace {

using data::DataSpec;

Key format_key() {
  std::vector<std::string> words, meanings;
  std::vector<data::Format> values;
  for (const data::FormatRow& row : data::formats()) {
    words.emplace_back(row.name);
    meanings.push_back(format("{}: {}", row.name, row.holds));
    values.push_back(row.format);
  }
  return {.path = "data.format",
          .meaning = join(meanings, "; ") + ".",
          .field = choice<data::Format>(at(&Config::data, &DataSpec::format), words, values),
          .fallback = words[0],
          .example = words[1],
          .elsewhere = {"dataset_type", "data_format"}};
}

std::vector<Key> text_keys() {
  const std::vector<model::Kind> of_text = kinds_that_read(model::Reads::text);
  return {
      format_key(),
      {.path = "data.path",
       .meaning = "The text, the PREFIX of the set, the folder of shards, or the file or folder of "
                  "pictures, seen from the current directory.",
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
       .elsewhere = {"data_blend", "blend_ratio", "datasets", "data_paths", "data.paths"},
       .kinds = of_text},
      {.path = "data.tokenizer",
       .meaning =
           "char: a token for each different character of the text; byte: 256 tokens, for "
           "any text; sentencepiece: a model that `fourfold data train-tokenizer` or another "
           "tool made; gpt2: byte pair encoding as GPT-2 has it; hub: the tokenizer.json of a "
           "Llama, Qwen, SmolLM, Mistral and their like.",
       .field = choice<tokenizer::TokenizerKind>(
           at(&Config::data, &DataSpec::tokenizer),
           {"char", "byte", "sentencepiece", "gpt2", "hub"},
           {tokenizer::TokenizerKind::character, tokenizer::TokenizerKind::byte,
            tokenizer::TokenizerKind::sentencepiece, tokenizer::TokenizerKind::gpt2,
            tokenizer::TokenizerKind::hub}),
       .fallback = "char",
       .example = "byte",
       .elsewhere = {"tokenizer_type", "tokenizer_name"},
       .kinds = of_text},
      {.path = "data.tokenizer_path",
       .meaning =
           "sentencepiece: the .model file; gpt2: the folder with vocab.json and merges.txt; "
           "hub: the folder with tokenizer.json, or that file. Its content is copied into the run "
           "directory.",
       .field = at(&Config::data, &DataSpec::tokenizer_path),
       .fallback = "\"\"",
       .example = "data/bible.model",
       .elsewhere = {"tokenizer_model", "vocab_file", "merge_file", "tokenizer_file"},
       .kinds = of_text},
      {.path = "data.split",
       .meaning = "The first part of the tokens, for training; the rest is for validation. The cut "
                  "moves back to where a document begins, unless more would move than the smaller "
                  "part or a tenth of all. Of pictures, the first part of a random order that is "
                  "always the same. With data.validation nothing is cut.",
       .field = at(&Config::data, &DataSpec::split),
       .fallback = "0.9",
       .bounds = inside_zero_one(),
       .example = "0.95",
       .elsewhere = {"train_split", "train_fraction", "val_split"}},
      {.path = "data.validation",
       .meaning = "A text, a set of tokens or of pictures for validation alone, of the format of "
                  "data.path, seen from "
                  "the current directory; all of data.path is then for training. Empty: the end of "
                  "data.path validates, as data.split says.",
       .field = at(&Config::data, &DataSpec::validation),
       .fallback = "\"\"",
       .example = "data/validation.txt",
       .elsewhere = {"val_path", "val_data_path", "valid_data_path", "validation_path", "val_data",
                     "valid_data", "val_file", "validation_file", "val_bin", "val_dataset",
                     "validation_dataset", "eval_dataset"}},
      {.path = "data.seq_length",
       .meaning = "Length of a sample.",
       .field = at(&Config::data, &DataSpec::seq_length),
       .fallback = "64",
       .bounds = between(1, most_tokens),
       .unit = "tokens",
       .cost = "Activations grow in proportion, the arithmetic of attention with its square.",
       .example = "1024",
       .elsewhere = {"block_size", "sequence_length", "seq_len", "max_seq_length",
                     "context_length"},
       .kinds = of_text},
      {.path = "data.mask_documents",
       .meaning =
           "Whether a token attends to its own document only; false: to all that comes before it "
           "in its sample, which is cut from documents that stand one after the other.",
       .field = at(&Config::data, &DataSpec::mask_documents),
       .fallback = "false",
       .cost = "true: the shorter the documents, the less attention computes.",
       .example = "true",
       .elsewhere = {"reset_attention_mask", "intra_document_masking", "block_causal_mask",
                     "doc_mask", "document_mask"},
       .kinds = of_text},
      {.path = "data.restart_positions",
       .meaning =
           "Whether positions count from the beginning of each document; false: from that of "
           "the sample. The part of a document that a sample begins with counts from 0.",
       .field = at(&Config::data, &DataSpec::restart_positions),
       .fallback = "false",
       .example = "true",
       .elsewhere = {"reset_position_ids"},
       .kinds = of_text},
  };
}

std::vector<Key> picture_keys() {
  const std::vector<model::Kind> of_pictures = kinds_that_read(model::Reads::pictures);
  return {
      {.path = "data.flip",
       .meaning = "Whether half of the training samples are mirrored, left to right.",
       .field = at(&Config::data, &DataSpec::flip),
       .fallback = "false",
       .example = "true",
       .elsewhere = {"hflip", "random_flip", "horizontal_flip", "augment"},
       .kinds = of_pictures},
      {.path = "data.bad_images",
       .meaning = "What is done about pictures that cannot be used: stop, or leave out up to N of "
                  "them, which are counted and named.",
       .field = Place<data::BadPictures>(at(&Config::data, &DataSpec::bad_images)),
       .fallback = "stop",
       .cost = "skip: every PNG is decoded once when the set is opened.",
       .example = "skip:10",
       .elsewhere = {"bad_pictures", "skip_bad_images", "on_error"},
       .kinds = of_pictures},
  };
}

}  // namespace

std::vector<Key> data_keys() {
  std::vector<Key> all = text_keys();
  const auto add = [&](std::vector<Key> rows) { std::ranges::move(rows, std::back_inserter(all)); };
  for (const model::Kind kind : model::kinds) add(family_schema(kind).data_keys);
  add(picture_keys());
  return all;
}

}  // namespace fourfold::config
