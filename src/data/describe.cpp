#include "data/describe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "data/format.h"
#include "data/llmc_shards.h"
#include "data/megatron_set.h"
#include "data/sidecar.h"
#include "data/text_source.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::data {
namespace {

constexpr std::size_t shown_bytes = 200, shown_tokens = 20;

/// Counts of lengths by powers of two.
class Histogram {
 public:
  void add(std::int64_t length) {
    ++counts_[std::bit_width(static_cast<std::uint64_t>(length))];
    longest_ = std::max(longest_, length);
  }

  std::string text(std::string_view unit) const {
    const std::int64_t most = *std::max_element(counts_.begin(), counts_.end());
    std::string text =
        format("documents by their length in {}, the longest {}\n", unit, format_grouped(longest_));
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      const std::int64_t least = i == 0 ? 0 : std::int64_t{1} << (i - 1);
      const std::int64_t last = i == 0 ? 0 : 2 * least - 1;
      constexpr std::int64_t columns = 40;
      const auto width = static_cast<std::size_t>((counts_[i] * columns + most - 1) / most);
      text += format("  {:>13} to {:>13}  {:>11}  {}\n", format_grouped(least),
                     format_grouped(last), format_grouped(counts_[i]), std::string(width, '#'));
    }
    return text;
  }

 private:
  std::array<std::int64_t, 64> counts_{};  // by bit width
  std::int64_t longest_ = 0;
};

/// The beginning of a text as one line in quotes.
std::string excerpt(std::string_view text) {
  const bool is_cut = text.size() > shown_bytes;
  return Json(text.substr(0, shown_bytes)).dump() + (is_cut ? " ..." : "");
}

std::string first_tokens(const TokenStream& stream, const tokenizer::Tokenizer* tokenizer) {
  constexpr std::int64_t any = std::int64_t{1} << 31;
  std::vector<std::int32_t> ids(
      std::min<std::size_t>(shown_tokens, static_cast<std::size_t>(stream.num_tokens())));
  const std::int64_t vocab = tokenizer != nullptr ? tokenizer->vocab_size() : any - 1;
  if (const auto bad = stream.read(0, vocab, ids))
    return format("{} is {}, expected 0 to {}", stream.place(bad->position), bad->value, vocab - 1);
  if (tokenizer != nullptr) return excerpt(tokenizer->decode(ids));
  std::string text;
  for (const std::int32_t id : ids) text += format("{} ", id);
  return text;
}

Description describe_model(const std::string& path) {
  const auto tokenizer = tokenizer::load_tokenizer(tokenizer::TokenizerKind::sentencepiece, path);
  const auto end = tokenizer->end_of_document();
  return {path,
          {{"what", "a tokenizer of sentencepiece"},
           {"tokens", format_grouped(tokenizer->vocab_size())},
           {"fingerprint", tokenizer->fingerprint()},
           {"ends", end ? format("token {} ends a document", *end) : "no token ends a document"}},
          {}};
}

}  // namespace

Description describe_megatron(const std::string& path) {
  const std::string prefix = megatron_prefix(path);
  const MegatronSet set(prefix);
  const auto sidecar = read_sidecar(prefix);
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  if (sidecar) tokenizer = tokenizer_of(*sidecar, prefix + ".json");
  const auto dtype = facts_of(set.index().dtype());
  Rows rows = {
      {"what", "a Megatron set"},
      {"tokens", format("{} of type {}, {}", format_grouped(set.num_tokens()), dtype.name,
                        format_bytes(set.num_tokens() * dtype.size_bytes))},
      {"documents", format_grouped(set.num_documents())},
      {"tokenizer", sidecar ? sidecar->fingerprint : "not known: there is no " + prefix + ".json"}};
  if (sidecar)
    rows.push_back({"ends", sidecar->ends_documents
                                ? "each document ends with a token of its own"
                                : "documents follow each other without a mark"});
  if (set.num_tokens() > 0) rows.push_back({"begins", first_tokens(set, tokenizer.get())});
  Histogram lengths;
  auto documents = set.index().documents_before(0);
  while (const auto document = documents.next()) lengths.add(document->tokens);
  return {prefix, std::move(rows), set.num_documents() > 0 ? lengths.text("tokens") : ""};
}

Description describe_shards(const std::string& path) {
  const LlmcShards shards(path);
  Rows rows = {{"what", format("{} shard{} of llm.c", shards.num_shards(),
                               shards.num_shards() == 1 ? "" : "s")},
               {"tokens", format("{} of type {}", format_grouped(shards.num_tokens()),
                                 facts_of(shards.dtype()).name)}};
  if (LlmcShards::has_both_parts(path)) {
    const LlmcShards validation(path, LlmcShards::Part::validation);
    rows.push_back(
        {"validate", format("{}, by their names", counted(validation.num_tokens(), "token"))});
  }
  if (shards.num_tokens() > 0) rows.push_back({"begins", first_tokens(shards, nullptr)});
  if (shards.passed_over().count > 0)
    rows.push_back({"note", shards.passed_over().text("name", "passed over")});
  return {path, std::move(rows), {}};
}

Description describe_text(const std::string& path, const std::string& field) {
  const TakenFiles files = list_text_files({path});
  RawTextReader reader(files.taken);
  Histogram lengths;
  std::int64_t documents = 0, bytes = 0, open_bytes = 0;
  std::string first;
  bool has_lines = false;
  while (auto raw = reader.next()) {
    has_lines = has_lines || raw->form == TextForm::json_lines;
    for_each_piece(std::move(*raw), field, [&](const TextPiece& piece) {
      if (first.empty()) first = piece.text.substr(0, shown_bytes + 1);
      open_bytes += static_cast<std::int64_t>(piece.text.size());
      if (!piece.ends_document) return;
      lengths.add(open_bytes);
      bytes += open_bytes;
      open_bytes = 0;
      ++documents;
    });
  }
  Rows rows = {
      {"what", reader.forms(field) + (has_lines ? "; --field names another" : "")},
      {"files", format("{}, {} on the disk", format_grouped(std::ssize(files.taken)),
                       format_bytes(reader.bytes_in_all()))},
      {"documents", format("{}, {} of text", format_grouped(documents), format_bytes(bytes))},
      {"begins", excerpt(first)}};
  for (const std::string& note : files.notes()) rows.push_back({"note", note});
  return {path, std::move(rows), documents > 0 ? lengths.text("bytes") : ""};
}

Description describe(const std::string& path, const std::string& field, BadPictures bad) {
  const FormatRow* best = &row_of(Format());  // anything may be a text
  Match match = Match::none;
  for (const FormatRow& row : formats()) {
    const Match found = row.match == nullptr ? Match::none : row.match(path);
    if (found > match) match = found, best = &row;
  }
  std::error_code ignored;
  if (match < Match::names && path.ends_with(".model") &&
      !std::filesystem::is_directory(path, ignored))
    return describe_model(path);
  return best->describe(path, field, bad);
}

}  // namespace fourfold::data
