// PREFIX.json beside a Megatron set: what its numbers mean, and hashes of its files. Other tools
// neither write nor need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tokenizer/tokenizer.h"

namespace fourfold::data {

struct Sidecar {
  std::string tokenizer;    // the line of JSON of Tokenizer::to_text
  std::string fingerprint;  // of the tokenizer
  std::int64_t vocab_size = 0, documents = 0, tokens = 0;
  std::string dtype;
  bool ends_documents = false;     // each document ends with the tokenizer's end_of_document
  std::string bin_hash, idx_hash;  // whole_hash_text of the files
  bool operator==(const Sidecar&) const = default;
};

/// Indented JSON, ends with a newline.
std::string to_text(const Sidecar& sidecar);
/// Errors: UserError(bad_data) with what is missing or of another type.
Sidecar parse_sidecar(const std::string& text, const std::string& file);

/// The tokenizer in it. Errors: UserError(bad_data) where there is none.
std::unique_ptr<tokenizer::Tokenizer> tokenizer_of(const Sidecar& sidecar, const std::string& file);

/// PREFIX.json; nothing when there is none.
std::optional<Sidecar> read_sidecar(const std::string& prefix);

using ReadBytes = std::function<void(std::int64_t offset, std::span<std::byte> into)>;
/// A hash of all bytes of a file, 16 hexadecimal digits: XXH3 of the XXH3 of each 4 MiB.
std::string whole_hash_text(std::int64_t size_bytes, const ReadBytes& read);

}  // namespace fourfold::data
