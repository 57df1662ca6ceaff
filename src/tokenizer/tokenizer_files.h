// Tokenizers in the files of other tools, beside an exported or imported model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/atomic_folder.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::tokenizer {

/// Writes what other tools read, where there are such files for this kind of tokenizer, and always
/// one that find_tokenizer reads. `text` is that of Tokenizer::to_text. What is to be said of it:
/// how it differs there, or why it stays here.
std::vector<std::string> write_tokenizer_files(const std::string& text, const AtomicFolder& folder);

/// The tokenizer of a folder with a model of Hugging Face.
struct FoundTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string key;  // data.tokenizer; empty: only numbers of tokens
  struct File {
    std::string name, content;
  };
  std::vector<File> files;         // to be written for data.tokenizer_path
  std::vector<std::string> notes;  // how it differs here, or why it did not come
};

/// In this order: our own file, tokenizer.json, vocab.json with merges.txt, tokenizer.model; the
/// two files of GPT-2 are not taken where tokenizer.json says what they leave open and is not known
/// here. Without any that can be used the tokens are numbers. All other files are read too
/// (special_tokens.h): what they add is used where there is the like of it here, and noted where
/// there is not, and where files contradict each other. Errors: UserError(no_checkpoint) for a
/// tokenizer with more tokens than the model.
FoundTokenizer find_tokenizer(const std::string& folder, std::int64_t vocab_size);

}  // namespace fourfold::tokenizer
