#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/units.h"

namespace fourfold::tokenizer {
namespace {

constexpr const char* tokenizer_name = "tokenizer.json";
constexpr const char* tokenizer_config_name = "tokenizer_config.json";
constexpr const char* added_name = "added_tokens.json";
constexpr const char* map_name = "special_tokens_map.json";
constexpr const char* generation_name = "generation_config.json";
constexpr const char* config_name = "config.json";

/// null where there is no such file, or none that can be read, which is noted.
Json read_json(const std::string& folder, const char* name, std::vector<std::string>& notes) {
  const std::string path = join_path(folder, name);
  if (!file_exists(path)) return {};
  try {
    return parse_json(read_file(path, ExitCode::no_checkpoint), path, ExitCode::no_checkpoint);
  } catch (const UserError& error) {
    notes.push_back(format("{} is left out: {}", name, error.what()));
    return {};
  }
}

std::optional<std::int64_t> integer_of(const Json* json) {
  if (json == nullptr || json->kind() != Json::Kind::integer) return std::nullopt;
  return json->as_integer();
}

/// A token is its text, or an object with it.
std::optional<std::string> text_of_token(const Json* json) {
  if (json != nullptr && json->kind() == Json::Kind::object) json = json->find("content");
  if (json == nullptr || json->kind() != Json::Kind::string) return std::nullopt;
  return json->as_string();
}

const std::vector<Json>& items_of(const Json& json, const char* key) {
  static const std::vector<Json> none;
  const Json* list = json.find(key);
  return list != nullptr && list->kind() == Json::Kind::array ? list->items() : none;
}

const std::vector<Json::Member>& members_of(const Json* json) {
  static const std::vector<Json::Member> none;
  return json != nullptr && json->kind() == Json::Kind::object ? json->members() : none;
}

class SpecialReading {
 public:
  SpecialReading(const std::string& folder, std::span<const std::string> vocabulary)
      : folder_(folder), vocabulary_(vocabulary) {}

  SpecialTokens read() && {
    const Json tokenizer = json(tokenizer_name), tokenizer_config = json(tokenizer_config_name),
               added = json(added_name), map = json(map_name);
    for (const Json& token : items_of(tokenizer, "added_tokens"))
      add(integer_of(token.find("id")), text_of_token(&token), tokenizer_name);
    for (const Json::Member& token : members_of(tokenizer_config.find("added_tokens_decoder"))) {
      std::int64_t id = -1;
      const char* const end = token.key.data() + token.key.size();
      if (std::from_chars(token.key.data(), end, id).ptr == end)
        add(id, text_of_token(&token.value), tokenizer_config_name);
    }
    for (const Json::Member& token : members_of(&added))
      add(integer_of(&token.value), token.key, added_name);
    add_by_text(tokenizer_config, tokenizer_config_name);
    add_by_text(map, map_name);
    std::ranges::sort(result_.added, {}, &SpecialTokens::Added::id);
    const Json generation = json(generation_name);
    note_changes_of_texts(tokenizer_config);
    note_sampling(generation);
    const Json config = json(config_name);
    for (const Border border : {Border::end, Border::begin}) {
      by_id(border, generation, generation_name);
      by_id(border, config, config_name);
      by_text(border, tokenizer_config, tokenizer_config_name);
      by_text(border, map, map_name);
    }
    return std::move(result_);
  }

 private:
  /// Where in a text a token stands that no text gives.
  enum class Border : std::uint8_t { end, begin };

  Json json(const char* name) { return read_json(folder_, name, result_.notes); }

  void note(std::string words) { result_.notes.push_back(std::move(words)); }

  void add(std::optional<std::int64_t> id, std::optional<std::string> text, const char* file) {
    if (!id || !text || text->empty() || *id < 0) return;
    const auto same = std::ranges::find(result_.added, *id, &SpecialTokens::Added::id);
    const auto spelt = std::ranges::find(result_.added, *text, &SpecialTokens::Added::text);
    const bool is_known = *id < std::ssize(vocabulary_);
    if (same != result_.added.end()) {
      if (same->text != *text)
        note(format("token {} is {} by {} and {} by {}; the first is taken", *id,
                    json_quoted(same->text), same->file, json_quoted(*text), file));
    } else if (spelt != result_.added.end()) {
      note(format("{} is token {} by {} and {} by {}; the first is taken", json_quoted(*text),
                  spelt->id, spelt->file, *id, file));
    } else if (is_known && vocabulary_[static_cast<std::size_t>(*id)] != *text) {
      note(format("token {} is {} by {} and {} by the vocabulary, which is taken", *id,
                  json_quoted(*text), file,
                  json_quoted(vocabulary_[static_cast<std::size_t>(*id)])));
    } else if (const auto other = id_of(*text); !is_known && other) {
      note(format("{} is token {} by {} and {} by the vocabulary, which is taken",
                  json_quoted(*text), *id, file, *other));
    } else {
      result_.added.push_back({*id, *std::move(text), file});
    }
  }

  /// Tokens that are named by their texts alone: each has an id elsewhere.
  void add_by_text(const Json& json, const char* file) {
    for (const Json& token : items_of(json, "additional_special_tokens")) {
      const auto text = text_of_token(&token);
      if (!text || text->empty()) continue;
      const auto id = id_of_special(*text);
      if (id)
        add(id, text, file);
      else if (!vocabulary_.empty())
        note(format("{} is a special token by {}, and no token of the vocabulary",
                    json_quoted(*text), file));
    }
  }

  /// Settings by which a text has other ids there.
  void note_changes_of_texts(const Json& config) {
    for (const auto& [key, does] : {std::pair("add_bos_token", "puts a token before a text"),
                                    {"add_eos_token", "puts a token after a text"},
                                    {"add_prefix_space", "puts a space before a text"},
                                    {"do_lower_case", "turns letters into small ones"}}) {
      const Json* value = config.find(key);
      if (value == nullptr || value->kind() != Json::Kind::boolean) continue;
      const std::string_view name = key;
      if (name == "add_bos_token") result_.adds_begin = value->as_bool();
      if (name == "add_eos_token") result_.adds_end = value->as_bool();
      if (!value->as_bool()) continue;
      auto& notes = name == "do_lower_case" ? result_.notes : result_.notes_of_one_end;
      notes.push_back(
          format("{} of {} {} there, which is not done here", key, tokenizer_config_name, does));
    }
  }

  /// Settings by which a model writes other texts there.
  void note_sampling(const Json& generation) {
    std::string options, others;
    if (const Json* samples = generation.find("do_sample");
        samples != nullptr && *samples == Json(false))
      options += " --temperature 0";
    for (const auto& [key, option] : {std::pair("temperature", "--temperature"),
                                      {"top_k", "--top-k"},
                                      {"top_p", "--top-p"},
                                      {"max_new_tokens", "--tokens"}}) {
      const Json* value = generation.find(key);
      const bool is_number = value != nullptr && (value->kind() == Json::Kind::integer ||
                                                  value->kind() == Json::Kind::number);
      if (is_number && options.find(option) == options.npos)
        options += format(" {} {}", option, value->dump());
    }
    for (const auto& [key, idle] : {std::pair("repetition_penalty", 1),
                                    {"no_repeat_ngram_size", 0},
                                    {"num_beams", 1},
                                    {"suppress_tokens", 0},
                                    {"bad_words_ids", 0},
                                    {"forced_bos_token_id", -1},
                                    {"forced_eos_token_id", -1}}) {
      const Json* value = generation.find(key);
      if (value == nullptr || value->kind() == Json::Kind::null) continue;
      const bool is_number =
          value->kind() == Json::Kind::integer || value->kind() == Json::Kind::number;
      if (!is_number || value->as_double() != idle)
        others += format("{}{}", others.empty() ? "" : ", ", key);
    }
    if (!options.empty())
      note(format("{} has settings that `generate` does not read: pass{}", generation_name,
                  options));
    if (!others.empty())
      note(format("{} has settings that there are not here: {}", generation_name, others));
  }

  /// In the vocabulary.
  std::optional<std::int64_t> id_of(const std::string& text) const {
    const auto at = std::ranges::find(vocabulary_, text);
    return at == vocabulary_.end() ? std::nullopt : std::optional(at - vocabulary_.begin());
  }

  /// Among those that are added, or in the vocabulary.
  std::optional<std::int64_t> id_of_special(const std::string& text) const {
    const auto own = std::ranges::find(result_.added, text, &SpecialTokens::Added::text);
    return own != result_.added.end() ? own->id : id_of(text);
  }

  static const char* verb_of(Border border) { return border == Border::end ? "ends" : "begins"; }

  void take(Border border, std::optional<std::int64_t> id, const char* file) {
    if (!id || *id < 0) return;
    const bool is_end = border == Border::end;
    std::optional<std::int64_t>& taken = is_end ? result_.end : result_.begin;
    std::string& taken_file = is_end ? result_.end_file : result_.begin_file;
    if (!taken) {
      taken = id;
      taken_file = file;
      if (is_end && result_.ends.empty()) result_.ends = {*id};
    } else if (*taken != *id && !(is_end && std::ranges::count(result_.ends, *id) > 0)) {
      note(format("a text {} with token {} by {} and with token {} by {}; the first is taken",
                  verb_of(border), *taken, taken_file, *id, file));
    }
  }

  /// The number, or the first of several.
  void by_id(Border border, const Json& json, const char* file) {
    const bool is_end = border == Border::end;
    const char* const key = is_end ? "eos_token_id" : "bos_token_id";
    const Json* id = json.find(key);
    std::vector<Json> ids;
    if (id != nullptr && id->kind() == Json::Kind::array)
      ids = id->items();
    else if (id != nullptr)
      ids = {*id};
    if (ids.empty()) return;
    if (ids.size() > 1)
      (is_end ? result_.notes_of_one_end : result_.notes)
          .push_back(format("{} has {} tokens that {} a text ({}); the first alone does so here",
                            file, ids.size(), is_end ? "end" : "begin", key));
    if (is_end && !result_.end)
      for (const Json& one : ids)
        if (const auto end = integer_of(&one); end && *end >= 0) result_.ends.push_back(*end);
    take(border, integer_of(&ids.front()), file);
  }

  void by_text(Border border, const Json& json, const char* file) {
    const auto text = text_of_token(json.find(border == Border::end ? "eos_token" : "bos_token"));
    if (!text || text->empty()) return;
    const auto id = id_of_special(*text);
    if (!id && !vocabulary_.empty())
      note(format("a text {} with {} by {}, which is no token of the vocabulary", verb_of(border),
                  json_quoted(*text), file));
    take(border, id, file);
  }

  const std::string& folder_;
  std::span<const std::string> vocabulary_;
  SpecialTokens result_;
};

/// Unless texts give the token.
void end_documents(BytePairVocabulary& vocabulary, std::int64_t id) {
  const auto end = static_cast<std::int32_t>(id);
  const bool is_made = std::ranges::find(vocabulary.merges, end, &BytePairMerge::result) !=
                           vocabulary.merges.end() ||
                       vocabulary.tokens[static_cast<std::size_t>(end)].size() == 1;
  if (!is_made) vocabulary.end_of_document = end;
}

}  // namespace

SpecialTokens read_special_tokens(const std::string& folder,
                                  std::span<const std::string> vocabulary) {
  return SpecialReading(folder, vocabulary).read();
}

std::string compare_with_tokenizer_json(const std::string& folder,
                                        std::span<const std::string> vocabulary,
                                        const std::string& read_file) {
  std::vector<std::string> unread;  // read_special_tokens notes it
  const Json json = read_json(folder, tokenizer_name, unread);
  const Json* model = json.find("model");
  const Json* tokens = model != nullptr ? model->find("vocab") : nullptr;
  std::int64_t others = 0;
  std::string first;
  const auto compare = [&](std::int64_t id, const std::string& text) {
    const bool is_known = id >= 0 && id < std::ssize(vocabulary);
    if (is_known && vocabulary[static_cast<std::size_t>(id)] == text) return;
    if (others++ == 0)
      first = format("token {} is {} by {} and {} by {}", id, json_quoted(text), tokenizer_name,
                     is_known ? json_quoted(vocabulary[static_cast<std::size_t>(id)]) : "none",
                     read_file);
  };
  for (const Json::Member& token : members_of(tokens))
    compare(integer_of(&token.value).value_or(-1), token.key);
  if (tokens != nullptr && tokens->kind() == Json::Kind::array)  // pieces and their scores
    for (std::size_t id = 0; id < tokens->items().size(); ++id) {
      const Json& piece = tokens->items()[id];
      const bool is_piece = piece.kind() == Json::Kind::array && !piece.items().empty();
      compare(static_cast<std::int64_t>(id),
              is_piece ? text_of_token(&piece.items().front()).value_or("") : "");
    }
  if (others == 0) return {};
  return format("{}, which is taken; {}", first,
                others == 1 ? "one token differs" : format_grouped(others) + " tokens differ");
}

void use_special_tokens(BytePairVocabulary& vocabulary, const SpecialTokens& special,
                        std::int64_t most_tokens, std::vector<std::string>& notes) {
  std::string left_out;
  for (const SpecialTokens::Added& token : special.added) {
    const std::int64_t size = std::ssize(vocabulary.tokens);
    if (token.id < size) continue;
    if (token.id == size && size < most_tokens)
      vocabulary.tokens.push_back(token.text);
    else
      left_out +=
          format("{}{} ({} of {})", left_out.empty() ? "" : ", ", token.text, token.id, token.file);
  }
  if (!left_out.empty())
    notes.push_back(
        format("left out are tokens whose ids do not follow the vocabulary of {}, or "
               "are beyond the model: {}",
               counted(std::ssize(vocabulary.tokens), "token"), left_out));
  const std::int64_t size = std::ssize(vocabulary.tokens);
  if (special.end && *special.end < size) end_documents(vocabulary, *special.end);
  if (special.begin && *special.begin < size && vocabulary.end_of_document != *special.begin)
    vocabulary.begin_of_text = static_cast<std::int32_t>(*special.begin);
}

}  // namespace fourfold::tokenizer
