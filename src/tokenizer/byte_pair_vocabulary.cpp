#include "tokenizer/byte_pair_vocabulary.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/format.h"
#include "base/units.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

constexpr std::string_view end_token = "<|endoftext|>";

/// A token as it is shown in messages.
std::string shown(std::string_view letters) {
  constexpr std::size_t most = 60;
  std::string_view part = letters.substr(0, most);
  while (part.size() < letters.size() && !part.empty() && well_formed_prefix(part) != part.size())
    part.remove_suffix(1);
  return Json(part).dump() + (part.size() < letters.size() ? " ..." : "");
}

class Builder {
 public:
  Builder(ExitCode code, std::string advice) : code_(code), advice_(std::move(advice)) {}

  [[noreturn]] void fail(std::string_view place, std::string_view what) const {
    throw UserError(code_, format("{}: {}; {}", place, what, advice_));
  }

  void add_token(std::string_view letters, std::string_view name) {
    const auto id = static_cast<std::int32_t>(result_.tokens.size());
    auto bytes = from_byte_letters(letters);
    if (!bytes || bytes->empty())
      fail(name, format("token {} of id {} is not made of the characters that stand for bytes",
                        shown(letters), id));
    if (!ids_.try_emplace(*bytes, id).second)
      fail(name, format("token {} comes twice", shown(letters)));
    result_.tokens.push_back(*std::move(bytes));
  }

  void finish_tokens(std::string_view name) {
    for (std::size_t byte = 0; byte < result_.ids_of_bytes.size(); ++byte) {
      const std::string letter(1, static_cast<char>(byte));
      const auto found = ids_.find(letter);
      if (found == ids_.end())
        fail(name, format("has no token for the byte 0x{:02x} ({}), expected all 256", byte,
                          shown(to_byte_letters(letter))));
      result_.ids_of_bytes[byte] = found->second;
    }
  }

  /// `line` is "left right".
  void add_merge(std::string_view line, std::string_view place) {
    const std::size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos)
      fail(place,
           format("{} is no merge, expected two tokens with a space between them", shown(line)));
    const std::string_view parts[] = {line.substr(0, space), line.substr(space + 1)};
    const auto left = id_of(parts[0], place), right = id_of(parts[1], place);
    const std::string whole = result_.tokens[static_cast<std::size_t>(left)] +
                              result_.tokens[static_cast<std::size_t>(right)];
    const auto result = ids_.find(whole);
    if (result == ids_.end())
      fail(place, format("{} and {} make {}, which is no token", shown(parts[0]), shown(parts[1]),
                         shown(to_byte_letters(whole))));
    const auto key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
    if (!pairs_.insert(key).second) fail(place, format("the merge {} comes twice", shown(line)));
    result_.merges.push_back({left, right, result->second});
  }

  /// `end`: the token that ends documents, in place of the usual one.
  BytePairVocabulary finish(std::optional<std::int32_t> end = std::nullopt) {
    if (const auto usual = ids_.find(std::string(end_token)); !end && usual != ids_.end())
      end = usual->second;
    const auto makes_end = [&](const BytePairMerge& m) { return m.result == *end; };
    if (end && std::none_of(result_.merges.begin(), result_.merges.end(), makes_end))
      result_.end_of_document = end;
    return std::move(result_);
  }

 private:
  std::int32_t id_of(std::string_view letters, std::string_view place) const {
    const auto bytes = from_byte_letters(letters);
    const auto found = bytes ? ids_.find(*bytes) : ids_.end();
    if (found == ids_.end()) fail(place, format("{} is no token", shown(letters)));
    return found->second;
  }

  ExitCode code_;
  std::string advice_;
  BytePairVocabulary result_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_set<std::uint64_t> pairs_;
};

/// The tokens of vocab.json by id.
std::vector<std::string_view> tokens_by_id(const Json& json, const NamedText& file,
                                           const Builder& builder) {
  if (json.kind() != Json::Kind::object || json.members().empty())
    builder.fail(file.name, "is not an object of tokens and their ids");
  std::vector<std::string_view> tokens(json.members().size());
  for (const Json::Member& member : json.members()) {
    if (member.value.kind() != Json::Kind::integer)
      builder.fail(file.name, format("the id of token {} is no whole number", shown(member.key)));
    const std::int64_t id = member.value.as_integer();
    if (id < 0 || static_cast<std::size_t>(id) >= tokens.size())
      builder.fail(file.name, format("token {} has id {}, expected 0 to {} for {} tokens",
                                     shown(member.key), id, tokens.size() - 1,
                                     format_grouped(static_cast<std::int64_t>(tokens.size()))));
    auto& token = tokens[static_cast<std::size_t>(id)];
    if (token.data() != nullptr)
      builder.fail(file.name, format("tokens {} and {} have the same id {}", shown(token),
                                     shown(member.key), id));
    token = member.key;
  }
  return tokens;
}

void add_merges(const NamedText& file, Builder& builder) {
  std::size_t number = 0;
  for (std::string_view rest = file.text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    const bool is_head = number == 1 && line.starts_with("#version");
    const bool is_blank_end = line.empty() && rest.empty();
    if (!is_head && !is_blank_end) builder.add_merge(line, format("{}:{}", file.name, number));
  }
}

/// The strings of an array.
const std::vector<Json>& strings_of(const Json& description, const char* key, std::string_view name,
                                    const Builder& builder) {
  const Json* list = description.find(key);
  const auto is_text = [](const Json& item) { return item.kind() == Json::Kind::string; };
  if (list == nullptr || list->kind() != Json::Kind::array ||
      !std::all_of(list->items().begin(), list->items().end(), is_text))
    builder.fail(name, format("\"{}\" is not a list of texts", key));
  return list->items();
}

}  // namespace

BytePairVocabulary read_byte_pair_vocabulary(NamedText vocabulary, NamedText merges,
                                             ExitCode code) {
  Builder builder(code, "expected the vocab.json and merges.txt of one GPT-2 tokenizer, unchanged");
  const Json json = parse_json(vocabulary.text, vocabulary.name, code);
  for (const std::string_view token : tokens_by_id(json, vocabulary, builder))
    builder.add_token(token, vocabulary.name);
  builder.finish_tokens(vocabulary.name);
  add_merges(merges, builder);
  return builder.finish();
}

void describe(const BytePairVocabulary& vocabulary, Json& description) {
  std::vector<Json> tokens, merges;
  for (const std::string& token : vocabulary.tokens) tokens.emplace_back(to_byte_letters(token));
  for (const BytePairMerge& merge : vocabulary.merges)
    merges.emplace_back(tokens[static_cast<std::size_t>(merge.left)].as_string() + " " +
                        tokens[static_cast<std::size_t>(merge.right)].as_string());
  description.set("vocabulary", Json::array(std::move(tokens)));
  description.set("merges", Json::array(std::move(merges)));
  const auto end = vocabulary.end_of_document;
  if (end && vocabulary.tokens[static_cast<std::size_t>(*end)] != end_token)
    description.set("end_of_document", *end);
  if (vocabulary.begin_of_text) description.set("begin_of_text", *vocabulary.begin_of_text);
}

BytePairVocabulary read_description(const Json& description, std::string_view name, ExitCode code) {
  Builder builder(code, "copy the file from the run again");
  for (const Json& token : strings_of(description, "vocabulary", name, builder))
    builder.add_token(token.as_string(), name);
  builder.finish_tokens(name);
  std::size_t number = 0;
  for (const Json& merge : strings_of(description, "merges", name, builder))
    builder.add_merge(merge.as_string(), format("{}: merge {}", name, ++number));
  const auto id_at = [&](const char* key) -> std::optional<std::int32_t> {
    const Json* id = description.find(key);
    if (id == nullptr) return std::nullopt;
    const std::int64_t tokens = std::ssize(description.find("vocabulary")->items());
    if (id->kind() != Json::Kind::integer || id->as_integer() < 0 || id->as_integer() >= tokens)
      builder.fail(name, format("\"{}\" is {}, expected the id of a token, 0 to {}", key,
                                id->dump(), tokens - 1));
    return static_cast<std::int32_t>(id->as_integer());
  };
  const auto begin = id_at("begin_of_text");
  BytePairVocabulary vocabulary = builder.finish(id_at("end_of_document"));
  vocabulary.begin_of_text = begin;
  return vocabulary;
}

}  // namespace fourfold::tokenizer
