#include "tokenizer/gpt2.h"

#include <utility>

#include "base/json.h"
#include "tokenizer/chunk_cache.h"
#include "tokenizer/gpt2_chunks.h"

namespace fourfold::tokenizer {
namespace {

class Gpt2Tokenizer final : public Tokenizer {
 public:
  explicit Gpt2Tokenizer(BytePairVocabulary vocabulary)
      : vocabulary_(std::move(vocabulary)), merges_(vocabulary_.merges) {}

  std::string_view name() const override { return "gpt2"; }
  std::int64_t vocab_size() const override {
    return static_cast<std::int64_t>(vocabulary_.tokens.size());
  }
  std::optional<std::int32_t> end_of_document() const override {
    return vocabulary_.end_of_document;
  }
  std::optional<std::int32_t> begin_of_text() const override {
    return vocabulary_.begin_of_text ? vocabulary_.begin_of_text : vocabulary_.end_of_document;
  }

  std::vector<std::int32_t> encode(std::string_view text,
                                   std::string_view /*source*/) const override {
    std::vector<std::int32_t> ids, chunk_ids;
    ids.reserve(text.size() / 4);
    caches_.lend([&](ChunkCache& cache) {
      while (!text.empty()) {
        const std::string_view chunk = text.substr(0, first_gpt2_chunk(text));
        text.remove_prefix(chunk.size());
        if (const auto known = cache.find(chunk)) {
          ids.insert(ids.end(), known->begin(), known->end());
          continue;
        }
        encode_chunk(chunk, chunk_ids);
        cache.keep(chunk, chunk_ids);
        ids.insert(ids.end(), chunk_ids.begin(), chunk_ids.end());
      }
    });
    return ids;
  }

  std::size_t last_cut(std::string_view text) const override { return last_gpt2_cut(text); }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < vocab_size(), "a token id is below the vocabulary size");
      text += vocabulary_.tokens[static_cast<std::size_t>(id)];
    }
    return text;
  }

  std::string to_text() const override {
    Json description = Json::object().set("tokenizer", "gpt2");
    describe(vocabulary_, description);
    return description.dump();
  }

 private:
  void encode_chunk(std::string_view chunk, std::vector<std::int32_t>& ids) const {
    ids.clear();
    for (const char byte : chunk)
      ids.push_back(vocabulary_.ids_of_bytes[static_cast<unsigned char>(byte)]);
    merges_.apply(ids);
  }

  BytePairVocabulary vocabulary_;
  BytePairMerges merges_;
  mutable ChunkCaches caches_;
};

}  // namespace

std::unique_ptr<Tokenizer> gpt2_tokenizer(BytePairVocabulary vocabulary) {
  return std::make_unique<Gpt2Tokenizer>(std::move(vocabulary));
}

}  // namespace fourfold::tokenizer
