// Which tokenizer it is: by the configuration's word, or by the description in a run directory.
#include <algorithm>
#include <limits>
#include <variant>

#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/small_file.h"
#include "base/units.h"
#include "tokenizer/base64.h"
#include "tokenizer/byte_pair_vocabulary.h"
#include "tokenizer/gpt2.h"
#include "tokenizer/hub_folder.h"
#include "tokenizer/hub_tokenizer.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::tokenizer {
namespace {

// Models of 256,000 pieces have 5 MB.
constexpr std::size_t most_file_bytes = std::size_t{64} << 20;
/// Ids of tokens have 32 bits.
constexpr std::int64_t most_special_id = std::numeric_limits<std::int32_t>::max();

std::string read_tokenizer_file(const std::string& path) {
  auto read = read_small_file(path, most_file_bytes);
  if (const auto* fault = std::get_if<FileFault>(&read))
    throw UserError(ExitCode::bad_data, format("{}: {}; {}", path, fault->reason, fault->advice));
  return std::get<std::string>(std::move(read));
}

std::unique_ptr<Tokenizer> load_gpt2(const std::string& folder) {
  BytePairVocabulary vocabulary = read_byte_pair_folder(folder);
  std::vector<std::string> notes;  // `import` says them
  use_special_tokens(vocabulary, read_special_tokens(folder, vocabulary.tokens), most_special_id,
                     notes);
  return gpt2_tokenizer(std::move(vocabulary));
}

/// The text of a member; nothing when there is none.
const std::string* text_at(const Json& json, std::string_view key) {
  const Json* member = json.find(key);
  return member != nullptr && member->kind() == Json::Kind::string ? &member->as_string() : nullptr;
}

std::unique_ptr<Tokenizer> read_characters(const Json& json, std::string_view file) {
  const std::string* vocabulary = text_at(json, "vocabulary");
  if (vocabulary == nullptr || vocabulary->empty()) return nullptr;
  auto tokenizer = character_tokenizer(*vocabulary, file);
  const bool is_sorted_set = tokenizer->to_text() == json.dump();
  return is_sorted_set ? std::move(tokenizer) : nullptr;
}

std::unique_ptr<Tokenizer> read_numbers(const Json& json) {
  const Json* size = json.find("vocab_size");
  if (size == nullptr || size->kind() != Json::Kind::integer || size->as_integer() < 1 ||
      size->as_integer() > std::numeric_limits<std::int32_t>::max())
    return nullptr;
  return number_tokenizer(size->as_integer());
}

std::unique_ptr<Tokenizer> read_sentencepiece(const Json& json, std::string_view file) {
  const std::string* model = text_at(json, "model");
  auto bytes = model != nullptr ? from_base64(*model) : std::nullopt;
  if (!bytes) return nullptr;
  return sentencepiece_tokenizer(*std::move(bytes), file, ExitCode::no_checkpoint);
}

/// The tokenizer that the members describe; nothing when they do not describe one.
std::unique_ptr<Tokenizer> read_tokenizer(const Json& json, std::string_view file) {
  const std::string* kind = text_at(json, "tokenizer");
  if (kind == nullptr) return nullptr;
  if (*kind == "byte") return byte_tokenizer();
  if (*kind == "character") return read_characters(json, file);
  if (*kind == "number") return read_numbers(json);
  if (*kind == "sentencepiece") return read_sentencepiece(json, file);
  if (*kind == "gpt2") return gpt2_tokenizer(read_description(json, file, ExitCode::no_checkpoint));
  if (*kind == "hub") return read_hub_description(json, file);
  return nullptr;
}

}  // namespace

BytePairVocabulary read_byte_pair_folder(const std::string& folder) {
  const std::string vocabulary = join_path(folder, "vocab.json");
  const std::string merges = join_path(folder, "merges.txt");
  const std::string vocabulary_text = read_tokenizer_file(vocabulary);
  const std::string merges_text = read_tokenizer_file(merges);
  return read_byte_pair_vocabulary({vocabulary_text, vocabulary}, {merges_text, merges},
                                   ExitCode::bad_data);
}

std::string Tokenizer::fingerprint() const {
  return format("{} of {} tokens {}", name(), format_grouped(vocab_size()),
                hash128_text(to_text()));
}

std::unique_ptr<Tokenizer> load_tokenizer(TokenizerKind kind, const std::string& path) {
  switch (kind) {
    case TokenizerKind::character:
      throw UserError(ExitCode::bad_config,
                      "the tokenizer char is made from the text that is trained on and cannot be "
                      "loaded; use byte, sentencepiece, gpt2 or hub");
    case TokenizerKind::byte:
      return byte_tokenizer();
    case TokenizerKind::sentencepiece:
      return sentencepiece_tokenizer(read_tokenizer_file(path), path);
    case TokenizerKind::gpt2:
      return load_gpt2(path);
    case TokenizerKind::hub:
      return load_hub_tokenizer(path).tokenizer;  // `import` and `data tokenize` say its notes
  }
  fail_internal("every kind of tokenizer can be loaded");
}

std::unique_ptr<Tokenizer> tokenizer_from_text(std::string_view text, std::string_view file) {
  auto tokenizer = read_tokenizer(parse_json(text, file, ExitCode::no_checkpoint), file);
  if (!tokenizer)
    throw UserError(
        ExitCode::no_checkpoint,
        format("{}: does not describe a tokenizer; expected what a training run wrote, such as "
               "{{\"tokenizer\":\"byte\"}}; copy the file from the run again",
               file));
  return tokenizer;
}

}  // namespace fourfold::tokenizer
