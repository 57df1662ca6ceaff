// Token files of llm.c: a header of 256 words, then the tokens; several of them are one stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/data_file.h"
#include "data/left_out.h"
#include "data/token_dtype.h"
#include "data/token_stream.h"

namespace fourfold::data {

/// Two families (llm.c, dev/data/data_common.py): magic 20240520, version 1, u16 (GPT-2) and
/// 20240801, version 7, u32 (Llama 3). A document begins with the family's end-of-text token.
class LlmcShards final : public TokenStream {
 public:
  /// Which shards of a folder: llm.c keeps those that validate ("fineweb_val_000000.bin") beside
  /// those that train. Where a folder has shards of one kind alone, they are both parts.
  enum class Part : std::uint8_t { all, training, validation };
  /// A shard, or a folder whose .bin files are all shards of one family, sorted by name. Errors:
  /// UserError(bad_data) for a file that is cut short, damaged or of another family.
  explicit LlmcShards(const std::string& path, Part part = Part::all);
  /// True for a folder with shards of both kinds.
  static bool has_both_parts(const std::string& path);
  /// By its first bytes.
  static bool is_shard(const std::string& path);

  const std::string& name() const override { return name_; }
  std::int64_t num_tokens() const override { return num_tokens_; }
  /// Not known without reading all: 0.
  std::int64_t num_documents() const override { return 0; }
  TokenDtype dtype() const { return dtype_; }
  std::size_t num_shards() const { return shards_.size(); }
  /// Their paths, in the order of the tokens.
  std::vector<std::string> files() const;
  /// What the folder has beside the shards of this part.
  const LeftOut& passed_over() const { return passed_over_; }

  std::optional<BadToken> read(std::int64_t first, std::int64_t vocab_size,
                               std::span<std::int32_t> into) const override;
  /// Looks backward from `first` for the document's beginning: as many tokens as it has.
  void document_begins(std::int64_t first, std::span<std::int64_t> begins) const override;
  std::string place(std::int64_t position) const override;
  std::uint64_t fingerprint() const override;

 private:
  /// Few shards stay open; each of many is opened for every read.
  static constexpr std::size_t most_open = 256;
  struct Shard {
    SeenFile file;
    std::optional<DataFile> open;
    std::int64_t first_token;
  };
  const Shard& shard_of(std::int64_t token) const;
  std::int64_t byte_of(const Shard& shard, std::int64_t token) const;
  std::int64_t begin_of_document(std::int64_t token) const;

  std::string name_;
  std::vector<Shard> shards_;
  LeftOut passed_over_;
  TokenDtype dtype_ = TokenDtype::u16;
  std::int32_t end_of_text_ = 0;
  std::int64_t num_tokens_ = 0;
};

}  // namespace fourfold::data
