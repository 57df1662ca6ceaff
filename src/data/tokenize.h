// Texts to a Megatron set: the work of `fourfold data tokenize`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::data {

struct TokenizeOptions {
  std::vector<std::string> inputs;  // files and folders
  std::string field = "text";       // of JSON lines
  std::string prefix;               // absolute
  int jobs = 1;                     // threads
  bool append_eod = false;          // the tokenizer's end_of_document after each document
  bool overwrite = false;
  /// So many bytes of tokens at most are lost by a kill.
  std::int64_t note_bytes = std::int64_t{32} << 20;
};

struct TokenizeProgress {
  std::int64_t bytes_read = 0, bytes_in_all = 0;  // of the files as they lie on the disk
  std::int64_t documents = 0, tokens = 0;
};

struct TokenizeResult {
  std::int64_t documents = 0, tokens = 0;
  std::int64_t empty_documents = 0;  // left out, in this call
  std::int64_t bytes_resumed = 0;    // of the inputs, done by an earlier call
  std::string dtype;
  std::string forms;               // what the files of this call were taken for
  std::vector<std::string> notes;  // what people should know of the files
};

/// Writes PREFIX.bin, PREFIX.idx and PREFIX.json, whose bytes depend on inputs, tokenizer, field
/// and append_eod alone: not on the number of threads, and not on how often it was killed and
/// called again. A text of more than a megabyte is encoded in pieces, cut where the tokenizer gives
/// the ids of the whole (Tokenizer::last_cut). Memory: a few megabytes a thread. `tell` is called
/// from this thread after every megabyte or so. Errors: UserError(bad_data) for a text, always the
/// first one; UserError(storage); UserError(output_in_use).
TokenizeResult tokenize(FileSystem& files, const TokenizeOptions& options,
                        const tokenizer::Tokenizer& tokenizer,
                        const std::function<void(const TokenizeProgress&)>& tell);

/// A tokenizer of all characters that occur in the texts.
std::unique_ptr<tokenizer::Tokenizer> characters_of(const std::vector<std::string>& inputs,
                                                    const std::string& field);

}  // namespace fourfold::data
