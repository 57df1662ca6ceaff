// Tokenizers in the files of other tools, beside an exported or imported model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/atomic_folder.h"
#include "data/data_spec.h"
#include "data/tokenizer.h"

namespace fourfold::cli {

/// Writes what other tools read, where there are such files for this kind of tokenizer, and always
/// one that find_tokenizer reads. `text` is that of Tokenizer::to_text.
void write_tokenizer_files(const std::string& text, const AtomicFolder& folder);

/// The tokenizer of a folder with a model of Hugging Face.
struct FoundTokenizer {
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::string key;                 // data.tokenizer; empty: only numbers of tokens
  std::vector<std::string> files;  // of the folder, to be copied for data.tokenizer_path
};

/// In this order: our own file, vocab.json with merges.txt, tokenizer.model; without any the tokens
/// are numbers. Errors: UserError(no_checkpoint) for a tokenizer with more tokens than the model.
FoundTokenizer find_tokenizer(const std::string& folder, std::int64_t vocab_size);

}  // namespace fourfold::cli
