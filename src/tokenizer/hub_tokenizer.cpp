#include "tokenizer/hub_tokenizer.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/chunk_cache.h"
#include "tokenizer/gpt2_chunks.h"
#include "tokenizer/hub_file.h"
#include "tokenizer/hub_words.h"
#include "tokenizer/json_members.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/text_cutter.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

std::string replaced(std::string_view text, const std::string& from, const std::string& to) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = 0; (at = text.find(from, done)) != text.npos; done = at + from.size()) {
    result += text.substr(done, at - done);
    result += to;
  }
  result += text.substr(done);
  return result;
}

std::string normalised(const std::vector<NormalStep>& steps, std::string_view text, Place place) {
  std::string result(text);
  for (const NormalStep& step : steps) {
    switch (step.what) {
      case NormalStep::What::normal_form:
        result = normal_form_c(result);
        break;
      case NormalStep::What::before:
        if (!result.empty() && place != Place::goes_on) result.insert(0, step.to);
        break;
      case NormalStep::What::replace:
        result = replaced(result, step.from, step.to);
        break;
    }
  }
  return result;
}

/// Those that are looked for before or after the normalisation.
AddedTokens added_of(const HubFile& file, bool is_normalised) {
  std::vector<AddedTokens::Token> tokens;
  for (const HubFile::Added& added : file.added) {
    if (added.is_normalised != is_normalised) continue;
    std::string text =
        is_normalised ? normalised(file.normal_steps, added.text, Place::begin) : added.text;
    if (!text.empty())
      tokens.push_back({std::move(text), added.id, added.takes_left, added.takes_right});
  }
  return AddedTokens(std::move(tokens));
}

/// Where a document may be cut: between a character and a space after it.
class HubCuts {
 public:
  HubCuts(const HubFile& file, const TextCutter& cutter, const HubWords& words) {
    choose_how(file, cutter);
    for (std::size_t byte = 0; byte < 256; ++byte)
      parts_[byte] = words.shares_before_symbol(static_cast<char>(byte));
    for (const HubFile::Added& added : file.added) {
      takes_spaces_ = takes_spaces_ || added.takes_left || added.takes_right;
      for (std::size_t at = 0; at < added.text.size(); ++at) join(added.text, at);
    }
  }

  /// `begin_of_stretch` gives where the text after the last token that it spells begins.
  template <class BeginOfStretch>
  std::size_t last(std::string_view text, const TextCutter& cutter,
                   BeginOfStretch&& begin_of_stretch) const {
    if (how_ == How::by_expression) {
      if (changes_text_ || takes_spaces_) return 0;
      const std::size_t begin = begin_of_stretch();
      const std::size_t in_stretch = cutter.last_sure_cut(text.substr(begin));
      const std::size_t cut = in_stretch > 0 ? begin + in_stretch : 0;
      return cut > 0 && !is_joined(text, cut) && may_begin(text[cut]) ? cut : 0;
    }
    for (std::size_t at = text.size(); at-- > 1;)
      if (is_cut(text, at)) return at;
    return 0;
  }

 private:
  enum class How : std::uint8_t { after_letters, before_symbols, by_expression, not_at_all };

  void choose_how(const HubFile& file, const TextCutter& cutter) {
    using What = CutStep::What;
    const auto has = [&](What what) {
      return std::ranges::any_of(cutter.steps(),
                                 [&](const CutStep& step) { return step.what == what; });
    };
    only_before_spaces_ = has(What::space_before);
    changes_text_ = !file.normal_steps.empty() || has(What::spaces_to_symbols);
    bool makes_symbols = has(What::spaces_to_symbols), replaces_others = false;
    for (const NormalStep& step : file.normal_steps) {
      if (step.what != NormalStep::What::replace) continue;
      const bool is_symbol = step.from == " " && step.to == space_symbol;
      makes_symbols = makes_symbols || is_symbol;
      replaces_others = replaces_others || !is_symbol;
    }
    // No literal but a space or its symbol.
    const bool cuts_at_spaces = std::ranges::all_of(cutter.steps(), [](const CutStep& step) {
      return step.what > What::literal ||
             (step.what == What::literal && (step.text == " " || step.text == space_symbol));
    });
    if (replaces_others)
      how_ = How::not_at_all;  // what is replaced may reach over a cut
    else if (cutter.parts_letters_from_spaces() && !makes_symbols)
      how_ = How::after_letters;
    else if (makes_symbols && !file.is_of_bytes && cuts_at_spaces)
      how_ = How::before_symbols;
  }

  /// An added token has two bytes beside each other, or ends with the first of them: whatever comes
  /// after it stands on its own.
  void join(const std::string& text, std::size_t at) {
    const auto left = static_cast<unsigned char>(text[at]);
    if (at + 1 == text.size()) {
      for (std::size_t right = 0; right < 256; ++right)
        joined_[left * std::size_t{256} + right] = true;
      return;
    }
    const bool is_symbol = std::string_view(text).substr(at + 1).starts_with(space_symbol);
    joined_[left * std::size_t{256} + static_cast<unsigned char>(text[at + 1])] = true;
    if (is_symbol) joined_[left * std::size_t{256} + ' '] = true;
  }

  bool is_joined(std::string_view text, std::size_t at) const {
    return joined_[static_cast<unsigned char>(text[at - 1]) * std::size_t{256} +
                   static_cast<unsigned char>(text[at])];
  }

  /// A part gets no space before it, so it begins with one where the whole would get some.
  bool may_begin(char byte) const { return byte == ' ' || !only_before_spaces_; }

  bool is_cut(std::string_view text, std::size_t at) const {
    if (how_ == How::not_at_all || is_joined(text, at)) return false;
    const bool is_space = text[at] == ' ';
    const std::string_view left = text.substr(0, at);
    if (how_ == How::before_symbols)
      return is_space && left.back() != ' ' && !left.ends_with(space_symbol) &&
             parts_[static_cast<unsigned char>(left.back())] &&
             // White space on both sides may be one token's.
             !(takes_spaces_ && ends_with(left, CharacterClass::space));
    return (is_space || (text[at] == '\n' && may_begin('\n'))) &&
           ends_with(left, CharacterClass::letter);
  }

  static bool ends_with(std::string_view text, CharacterClass kind) {
    std::size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    const auto found = first_code_point(text.substr(at));
    return found && found->num_bytes == text.size() - at &&
           character_classes()[found->value] == kind;
  }

  How how_ = How::by_expression;
  bool changes_text_ = false, takes_spaces_ = false, only_before_spaces_ = false;
  std::bitset<256> parts_;
  std::bitset<65536> joined_;  // 256 x byte before + byte after
};

class FileTokenizer final : public Tokenizer {
 public:
  FileTokenizer(std::string json, const RolesOf& roles_of, HubFile file)
      : json_(std::move(json)),
        words_(file),
        roles_(roles_of(words_.surfaces())),
        cutter_(std::move(file.cut_steps)),
        raw_tokens_(added_of(file, false)),
        normal_tokens_(added_of(file, true)),
        cuts_(file, cutter_, words_),
        normal_steps_(std::move(file.normal_steps)),
        before_(std::move(file.before)),
        after_(std::move(file.after)),
        cuts_words_at_symbols_(!file.is_of_bytes && !file.takes_whole_words) {}

  std::string_view name() const override { return "hub"; }
  std::int64_t vocab_size() const override { return std::ssize(words_.surfaces()); }
  std::optional<std::int32_t> end_of_document() const override {
    return roles_.ends.empty() ? std::nullopt : std::optional(roles_.ends.front());
  }
  std::optional<std::int32_t> begin_of_text() const override {
    return roles_.begin ? roles_.begin : end_of_document();
  }
  std::vector<std::int32_t> ends_of_text() const override { return roles_.ends; }
  std::vector<std::int32_t> closing_tokens() const override { return after_; }

  std::vector<std::int32_t> encode(std::string_view text, std::string_view source) const override {
    return encode_at(text, source, Place::begin, before_);
  }
  std::vector<std::int32_t> encode_rest(std::string_view text,
                                        std::string_view source) const override {
    return encode_at(text, source, Place::goes_on, {});
  }
  std::size_t last_cut(std::string_view text) const override {
    return cuts_.last(text, cutter_, [&] {
      std::size_t begin = 0;
      for (const AddedTokens* tokens : {&raw_tokens_, &normal_tokens_})
        while (const auto found = tokens->find(text, begin)) begin = found->end;
      return begin;
    });
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < vocab_size(), "a token id is below the vocabulary size");
      text += words_.surfaces()[static_cast<std::size_t>(id)];
    }
    return text;
  }

  std::string to_text() const override {
    Json description = Json::object().set("tokenizer", "hub");
    description.set("ends", Json::array_of(roles_.ends));
    if (roles_.begin) description.set("begin", *roles_.begin);
    std::string text = description.dump();
    text.back() = ',';  // instead of the brace
    return text + "\"file\":" + json_ + "}";
  }

 private:
  using Ids = std::vector<std::int32_t>;

  /// Turns words into ids, those that come again from the cache.
  class Words final : public WordSink {
   public:
    Words(const FileTokenizer& of, std::string_view source, ChunkCache& cache, Ids& ids)
        : of_(of), source_(source), cache_(cache), ids_(ids) {}

    void take(std::string_view word) override {
      if (!of_.cuts_words_at_symbols_) return put(word);
      std::size_t begin = 0;
      for (std::size_t at = 1; (at = word.find(space_symbol, at)) != word.npos;
           at += space_symbol.size())
        if (of_.words_.shares_before_symbol(word[at - 1])) {
          put(word.substr(begin, at - begin));
          begin = at;
        }
      put(word.substr(begin));
    }
    Ids& ids() { return ids_; }
    std::string_view source() const { return source_; }

   private:
    void put(std::string_view word) {
      if (const auto known = cache_.find(word)) {
        ids_.insert(ids_.end(), known->begin(), known->end());
        return;
      }
      if (!of_.words_.encode(word, word_ids_))
        throw UserError(ExitCode::bad_data,
                        format("{}: a byte of {} has no token; leave it out, or use a tokenizer "
                               "with tokens for all 256 bytes",
                               source_, json_quoted(word.substr(0, 60))));
      cache_.keep(word, word_ids_);
      ids_.insert(ids_.end(), word_ids_.begin(), word_ids_.end());
    }

    const FileTokenizer& of_;
    std::string_view source_;
    ChunkCache& cache_;
    Ids& ids_;
    Ids word_ids_;
  };

  Ids encode_at(std::string_view text, std::string_view source, Place place,
                const Ids& before) const {
    Ids ids = before;
    ids.reserve(text.size() / 4 + before.size());
    caches_.lend([&](ChunkCache& cache) {
      Words words(*this, source, cache, ids);
      for_each_stretch(raw_tokens_, text, place, ids, [&](std::string_view part, Place where) {
        if (normal_steps_.empty())
          encode_normalised(part, where, words);
        else
          encode_normalised(normalised(normal_steps_, part, where), where, words);
      });
    });
    return ids;
  }

  void encode_normalised(std::string_view text, Place place, Words& words) const {
    for_each_stretch(normal_tokens_, text, place, words.ids(),
                     [&](std::string_view part, Place where) {
                       cutter_.cut(part, where, words.source(), words);
                     });
  }

  /// Adds the ids of tokens that are spelled; calls visit(stretch, place) for what lies between.
  template <class Visit>
  static void for_each_stretch(const AddedTokens& tokens, std::string_view text, Place place,
                               Ids& ids, Visit&& visit) {
    std::size_t done = 0;
    const auto hand_on = [&](std::size_t end) {
      if (done < end) visit(text.substr(done, end - done), done == 0 ? place : Place::within);
    };
    while (const auto found = tokens.find(text, done)) {
      hand_on(found->begin);
      ids.push_back(found->id);
      done = found->end;
    }
    hand_on(text.size());
  }

  std::string json_;  // the file, on one line
  HubWords words_;
  HubRoles roles_;
  TextCutter cutter_;
  AddedTokens raw_tokens_, normal_tokens_;
  HubCuts cuts_;
  std::vector<NormalStep> normal_steps_;
  Ids before_, after_;
  bool cuts_words_at_symbols_;
  mutable ChunkCaches caches_;
};

/// The id at a place of the description; nothing when it is none.
std::optional<std::int32_t> id_of(const Json& json) {
  const bool is_id = json.kind() == Json::Kind::integer && json.as_integer() >= 0 &&
                     json.as_integer() <= std::numeric_limits<std::int32_t>::max();
  return is_id ? std::optional(static_cast<std::int32_t>(json.as_integer())) : std::nullopt;
}

}  // namespace

std::variant<HubTokenizer, std::string> hub_tokenizer(const Json& json, const RolesOf& roles_of,
                                                      std::string_view source) {
  auto read = read_hub_file(json, source);
  if (auto* reason = std::get_if<std::string>(&read)) return std::move(*reason);
  HubFile file = std::get<HubFile>(std::move(read));
  HubTokenizer result;
  result.notes = std::move(file.notes);
  result.tokenizer = std::make_unique<FileTokenizer>(json.dump(), roles_of, std::move(file));
  return result;
}

std::unique_ptr<Tokenizer> read_hub_description(const Json& description, std::string_view source) {
  const Json *file = member(description, "file"), *ends = member(description, "ends");
  if (file == nullptr || ends == nullptr || ends->kind() != Json::Kind::array) return nullptr;
  HubRoles roles;
  for (const Json& end : ends->items()) {
    const auto id = id_of(end);
    if (!id) return nullptr;
    roles.ends.push_back(*id);
  }
  if (const Json* begin = member(description, "begin"); begin != nullptr) {
    roles.begin = id_of(*begin);
    if (!roles.begin) return nullptr;
  }
  bool are_tokens = true;
  const auto roles_of = [&](const std::vector<std::string>& texts) {
    const auto is_none = [&](std::int32_t id) { return id >= std::ssize(texts); };
    are_tokens =
        std::ranges::none_of(roles.ends, is_none) && !(roles.begin && is_none(*roles.begin));
    return roles;
  };
  auto made = hub_tokenizer(*file, roles_of, source);
  if (!are_tokens) return nullptr;
  if (const auto* reason = std::get_if<std::string>(&made))
    throw UserError(ExitCode::no_checkpoint, format("{}: {}", source, *reason));
  return std::get<HubTokenizer>(std::move(made)).tokenizer;
}

}  // namespace fourfold::tokenizer
