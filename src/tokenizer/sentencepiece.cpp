#include "tokenizer/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "tokenizer/base64.h"
#include "tokenizer/chunk_cache.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/text_cuts.h"
#include "tokenizer/utf8.h"

namespace sentencepiece::logging {
// In a header of the library that is not installed.
void SetMinLogLevel(int level);
}  // namespace sentencepiece::logging

namespace fourfold::tokenizer {
namespace {

using Kind = SentencePieceModel::Kind;
using PieceKind = SentencePieceModel::PieceKind;

/// sentencepiece counts the bytes of a text in an int and takes up to 50 bytes of memory for each
/// byte: longer texts are encoded in parts of this size.
constexpr std::size_t most_uncut_bytes = std::size_t{64} << 20;
/// For unigram models, whose sums over a long text lose digits.
constexpr std::size_t unigram_block_bytes = std::size_t{16} << 10;

/// What each id stands for in a text.
std::vector<std::string> surfaces_of(const SentencePieceModel& model) {
  std::vector<std::string> surfaces;
  surfaces.reserve(model.pieces.size());
  for (const auto& piece : model.pieces) {
    if (piece.kind == PieceKind::control) {
      surfaces.emplace_back();
    } else if (piece.kind == PieceKind::unknown) {
      surfaces.push_back(model.unknown_surface);
    } else if (piece.kind == PieceKind::byte) {
      surfaces.emplace_back(1, static_cast<char>(byte_of_piece(piece.text).value()));
    } else {
      std::string text(piece.text);
      for (std::size_t at = 0; (at = text.find(space_symbol, at)) != text.npos; ++at)
        text.replace(at, space_symbol.size(), " ");
      surfaces.push_back(std::move(text));
    }
  }
  return surfaces;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string bytes, std::string_view source, ExitCode code)
      : SentencePieceTokenizer(read_sentencepiece_model(bytes, source, code), bytes, source, code) {
  }

  std::string_view name() const override { return "sentencepiece"; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(surfaces_.size()); }
  std::optional<std::int32_t> end_of_document() const override { return end_; }

  std::vector<std::int32_t> encode(std::string_view text, std::string_view source) const override {
    return encode_part(text, source, Part::whole);
  }
  std::vector<std::int32_t> encode_rest(std::string_view text,
                                        std::string_view source) const override {
    return encode_part(text, source, Part::rest);
  }

  std::size_t last_cut(std::string_view text) const override {
    const std::size_t limit = cuts_.limit(text);
    if (kind_ != Kind::unigram) return cuts_.last(text, limit);
    // The blocks are those of the whole text.
    std::size_t cut = 0;
    for (std::size_t end = 0; (end = cuts_.next(text, cut + unigram_block_bytes, limit)) < limit;)
      cut = end;
    return cut;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < vocab_size(), "a token id is below the vocabulary size");
      text += surfaces_[static_cast<std::size_t>(id)];
    }
    return text;
  }

  std::string to_text() const override {
    return Json::object().set("tokenizer", "sentencepiece").set("model", to_base64(bytes_)).dump();
  }

 private:
  using Ids = std::vector<std::int32_t>;
  /// What of a document is encoded: from its beginning on, or from a cut on.
  enum class Part : std::uint8_t { whole, rest };

  Ids encode_part(std::string_view text, std::string_view source, Part part) const {
    if (const std::size_t bad = well_formed_prefix(text); bad != text.size())
      throw UserError(ExitCode::bad_data,
                      format("{}: byte {} (0x{:02x}) is not UTF-8 text, expected characters; use "
                             "data.tokenizer: gpt2 or byte, or convert the text to UTF-8",
                             source, bad, static_cast<unsigned char>(text[bad])));
    Ids ids;
    ids.reserve(text.size() / 4);
    if (kind_ == Kind::unigram)
      encode_blocks(text, source, part, ids);
    else
      caches_.lend([&](ChunkCache& cache) { encode_words(text, source, part, cache, ids); });
    return ids;
  }

  SentencePieceTokenizer(const SentencePieceModel& model, std::string_view bytes,
                         std::string_view source, ExitCode code)
      : bytes_(bytes), kind_(model.kind), cuts_(model), surfaces_(surfaces_of(model)) {
    load(source, code);
    if (const int end = processor_.eos_id(); end >= 0) end_ = end;
  }

  void load(std::string_view source, ExitCode code) {
    sentencepiece::logging::SetMinLogLevel(3);  // else the library writes to standard error
    std::string fault;
    try {
      const auto status = processor_.LoadFromSerializedProto(bytes_);
      if (!status.ok()) fault = status.message();
    } catch (const std::exception& error) {  // of its double array
      fault = error.what();
    }
    if (!fault.empty())
      throw UserError(code, format("{}: sentencepiece cannot load the model: {}; expected the "
                                   ".model file that `fourfold data train-tokenizer` or spm_train "
                                   "writes, whole",
                                   source, fault));
    require(processor_.GetPieceSize() == vocab_size(), "the library sees the pieces that we see");
  }

  void encode_words(std::string_view text, std::string_view source, Part of, ChunkCache& cache,
                    Ids& ids) const {
    const std::size_t limit = cuts_.limit(text);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = cuts_.next(text, begin + 1, limit);
      const std::string_view part = part_of(text, begin, end, of);
      const auto known = cuts_.exist() ? cache.find(part) : std::nullopt;
      if (known) {
        ids.insert(ids.end(), known->begin(), known->end());
      } else {
        const std::size_t first = ids.size();
        append_ids(part, source, ids);
        if (cuts_.exist()) cache.keep(part, std::span(ids).subspan(first));
      }
      begin = end;
    }
  }

  void encode_blocks(std::string_view text, std::string_view source, Part of, Ids& ids) const {
    const std::size_t limit = cuts_.limit(text);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = cuts_.next(text, begin + unigram_block_bytes, limit);
      append_ids(part_of(text, begin, end, of), source, ids);
      begin = end;
    }
  }

  std::string_view part_of(std::string_view text, std::size_t begin, std::size_t end,
                           Part of) const {
    const bool drops = (begin > 0 || of == Part::rest) && cuts_.drop_space();
    return text.substr(begin + (drops ? 1 : 0), end - begin - (drops ? 1 : 0));
  }

  void append_ids(std::string_view part, std::string_view source, Ids& ids) const {
    if (part.size() > most_uncut_bytes)
      throw UserError(ExitCode::bad_data,
                      format("{}: {} without a place where this tokenizer may cut them, expected "
                             "at most {}; split the text into documents",
                             source, format_bytes(static_cast<std::int64_t>(part.size())),
                             format_bytes(static_cast<std::int64_t>(most_uncut_bytes))));
    std::vector<int> found;
    const auto status = processor_.Encode(part, &found);
    if (!status.ok())
      throw UserError(ExitCode::bad_data,
                      format("{}: sentencepiece cannot encode it: {}; use another tokenizer model",
                             source, status.message()));
    ids.insert(ids.end(), found.begin(), found.end());
  }

  std::string bytes_;
  Kind kind_;
  TextCuts cuts_;
  std::vector<std::string> surfaces_;
  std::optional<std::int32_t> end_;
  sentencepiece::SentencePieceProcessor processor_;
  mutable ChunkCaches caches_;
};

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(std::string model, std::string_view source,
                                                   ExitCode code) {
  return std::make_unique<SentencePieceTokenizer>(std::move(model), source, code);
}

}  // namespace fourfold::tokenizer
