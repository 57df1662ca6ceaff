// Tokens of documents, one after the other, wherever they lie. Not samples (token_source.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fourfold::data {

/// A token that is not in [0, vocab_size).
struct BadToken {
  std::int64_t position = 0;  // in the stream
  std::int64_t value = 0;
};

/// Positions count tokens from the beginning of the first document. Errors of all functions:
/// UserError(bad_data) that names the file. For several threads at once.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  /// The name of the file or set, for messages.
  virtual const std::string& name() const = 0;
  virtual std::int64_t num_tokens() const = 0;
  virtual std::int64_t num_documents() const = 0;

  /// Tokens [first, first + into.size()), which exist. Stops at the first that is not in
  /// [0, vocab_size).
  virtual std::optional<BadToken> read(std::int64_t first, std::int64_t vocab_size,
                                       std::span<std::int32_t> into) const = 0;
  /// For each of the positions from `first` on, where the document that holds it begins.
  virtual void document_begins(std::int64_t first, std::span<std::int64_t> begins) const = 0;

  /// "a.bin, token 17 at byte 34".
  virtual std::string place(std::int64_t position) const = 0;
  /// A fingerprint that differs where the data differ: the hash of all tokens, or the sizes of the
  /// files and hashes of samples of them.
  virtual std::uint64_t fingerprint() const = 0;
};

/// Tokens in memory. `document_sizes` add up to the number of tokens.
class MemoryTokens final : public TokenStream {
 public:
  MemoryTokens(std::string name, std::vector<std::int32_t> tokens,
               std::span<const std::int64_t> document_sizes);

  const std::string& name() const override { return name_; }
  std::int64_t num_tokens() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t num_documents() const override {
    return static_cast<std::int64_t>(document_begins_.size());
  }
  std::optional<BadToken> read(std::int64_t first, std::int64_t vocab_size,
                               std::span<std::int32_t> into) const override;
  void document_begins(std::int64_t first, std::span<std::int64_t> begins) const override;
  std::string place(std::int64_t position) const override;
  std::uint64_t fingerprint() const override;

 private:
  std::string name_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> document_begins_;  // ascending; the empty ones are left out
};

}  // namespace fourfold::data
