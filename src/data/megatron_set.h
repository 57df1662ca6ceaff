// A Megatron IndexedDataset, PREFIX.bin and PREFIX.idx, as a stream of tokens that stay on the
// disk.
#pragma once

#include <string>

#include "data/megatron_index.h"
#include "data/token_stream.h"

namespace fourfold::data {

/// "a/b" of "a/b", "a/b.bin" or "a/b.idx".
std::string megatron_prefix(const std::string& path);

class MegatronSet final : public TokenStream {
 public:
  /// Checks the whole index, no token. Errors: those of MegatronIndex.
  explicit MegatronSet(const std::string& path);

  const std::string& name() const override { return bin_.path(); }
  std::int64_t num_tokens() const override { return index_.num_tokens(); }
  std::int64_t num_documents() const override { return index_.num_documents(); }
  const MegatronIndex& index() const { return index_; }

  std::optional<BadToken> read(std::int64_t first, std::int64_t vocab_size,
                               std::span<std::int32_t> into) const override;
  void document_begins(std::int64_t first, std::span<std::int64_t> begins) const override;
  std::string place(std::int64_t position) const override;
  std::uint64_t fingerprint() const override;

 private:
  /// The run that holds a token, and where the token lies.
  std::size_t run_of(std::int64_t token) const;
  std::int64_t byte_of(std::int64_t token) const;

  DataFile bin_;
  MegatronIndex index_;
};

}  // namespace fourfold::data
