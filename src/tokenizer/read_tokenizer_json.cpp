#include <algorithm>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "tokenizer/base64.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/byte_pair_vocabulary.h"
#include "tokenizer/gpt2.h"
#include "tokenizer/hub_tokenizer.h"
#include "tokenizer/json_members.h"
#include "tokenizer/piece_merges.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

using PieceKind = SentencePieceModel::PieceKind;

/// Scores are single precision, which counts so far without a gap.
constexpr std::size_t most_merges = std::size_t{1} << 24;

struct AddedToken {
  std::int64_t id = 0;
  std::string content;
};

/// The parts of the file.
class TokenizerReading {
 public:
  TokenizerReading(const Json& json, std::string_view source) : source_(source), json_(json) {
    if (json_.kind() != Json::Kind::object) fail("is no object");
    const Json* model = member(json_, "model");
    if (model == nullptr || model->kind() != Json::Kind::object) fail("has no model");
    model_ = model;
    read_added();
    if (adds_tokens(member(json_, "post_processor")))
      notes_.emplace_back("the tokens that its post-processor adds to a text are left out");
  }

  /// A template of nothing but the text itself adds none.
  static bool adds_tokens(const Json* post) {
    if (post == nullptr || type_of(post) == "ByteLevel") return false;
    const Json* single = member(*post, "single");
    if (single == nullptr || single->kind() != Json::Kind::array) return true;
    return std::any_of(single->items().begin(), single->items().end(),
                       [](const Json& part) { return member(part, "SpecialToken") != nullptr; });
  }

  ReadTokenizer read() {
    ReadTokenizer result;
    try {
      result.tokenizer = make();
    } catch (const Unlike& unlike) {
      result.reason = unlike.reason;
    }
    result.notes = std::move(notes_);
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw UserError(ExitCode::bad_data,
                    format("{}: {}; expected a tokenizer.json as the tokenizers of Hugging Face "
                           "write it, whole",
                           source_, what));
  }

  void read_added() {
    const Json* list = member(json_, "added_tokens");
    if (list == nullptr) return;
    if (list->kind() != Json::Kind::array) fail("\"added_tokens\" is no list");
    for (const Json& token : list->items()) {
      const Json* id = member(token, "id");
      if (id == nullptr || id->kind() != Json::Kind::integer || text_of(token, "content").empty())
        fail("an added token has no id or content");
      added_.push_back({id->as_integer(), text_of(token, "content")});
    }
    std::sort(added_.begin(), added_.end(),
              [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  }

  std::unique_ptr<Tokenizer> make() {
    const std::string type = text_of(*model_, "type");
    if (type == "Unigram") return unigram();
    if (type != "BPE") throw Unlike{format("its model is {}", type.empty() ? "of no type" : type)};
    if (member(*model_, "dropout") != nullptr) throw Unlike{"its merges are left out at random"};
    if (is_true(*model_, "ignore_merges", false))
      throw Unlike{"words that are tokens are not made by its merges (ignore_merges)"};
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_of(*model_, key).empty()) throw Unlike{format("its model has a {}", key)};
    read_vocabulary();
    read_merges();
    const Json* splits = member(json_, "pre_tokenizer");
    if (type_of(splits) == "ByteLevel") return byte_level(*splits);
    if (splits != nullptr) throw Unlike{format("its pre-tokenizer is {}", type_of(splits))};
    return member(json_, "normalizer") == nullptr && merges_.empty() ? characters() : pieces();
  }

  void read_vocabulary() {
    const Json* vocabulary = member(*model_, "vocab");
    if (vocabulary == nullptr || vocabulary->kind() != Json::Kind::object)
      fail("its model has no vocab");
    const auto size = static_cast<std::int64_t>(vocabulary->members().size());
    tokens_.resize(vocabulary->members().size());
    for (const Json::Member& token : vocabulary->members()) {
      const std::int64_t id =
          token.value.kind() == Json::Kind::integer ? token.value.as_integer() : -1;
      if (id < 0 || id >= size)
        throw Unlike{format("its ids have gaps, or are none: {}", Json(token.key).dump())};
      if (!tokens_[static_cast<std::size_t>(id)].empty())
        fail(format("two tokens have the id {}", id));
      tokens_[static_cast<std::size_t>(id)] = token.key;
    }
  }

  /// As two texts, or as one with a space between them.
  void read_merges() {
    const Json* merges = member(*model_, "merges");
    if (merges == nullptr) return;
    if (merges->kind() != Json::Kind::array) fail("\"merges\" is no list");
    for (const Json& merge : merges->items()) {
      if (merge.kind() == Json::Kind::string) {
        const std::string& text = merge.as_string();
        const std::size_t space = text.find(' ');
        if (space == text.npos) fail("a merge has no two parts");
        merges_.emplace_back(text.substr(0, space), text.substr(space + 1));
        continue;
      }
      const bool is_pair = merge.kind() == Json::Kind::array && merge.items().size() == 2 &&
                           merge.items()[0].kind() == Json::Kind::string &&
                           merge.items()[1].kind() == Json::Kind::string;
      if (!is_pair) fail("a merge has no two parts");
      merges_.emplace_back(merge.items()[0].as_string(), merge.items()[1].as_string());
    }
  }

  /// Tokens that only an exact spelling gives there, and no text here.
  void note_added(std::string_view but) {
    std::string names;
    for (const AddedToken& token : added_)
      if (token.content != but) names += (names.empty() ? "" : ", ") + token.content;
    if (!names.empty())
      notes_.push_back(
          format("a text that spells one of these tokens does not give it here: {}", names));
  }

  std::unique_ptr<Tokenizer> byte_level(const Json& splits) {
    if (member(json_, "normalizer") != nullptr) throw Unlike{"it normalises texts"};
    if (is_true(splits, "add_prefix_space", true))
      throw Unlike{"it puts a space before a text (add_prefix_space)"};
    if (is_bytes()) return byte_tokenizer();
    if (!merges_.empty() && !is_true(splits, "use_regex", true))
      throw Unlike{"it does not cut texts into words as GPT-2 does (use_regex)"};
    constexpr std::string_view end = "<|endoftext|>";
    for (const AddedToken& token : added_) add_to_vocabulary(token);
    note_added(end);
    std::vector<Json::Member> members;
    for (const std::string& token : tokens_) members.push_back({token, members.size()});
    std::string merges = "#version: 0.2\n";
    for (const auto& [left, right] : merges_) merges += left + " " + right + "\n";
    const std::string text = Json::object(std::move(members)).dump(),
                      places[] = {format("{}: model.vocab", source_),
                                  format("{}: model.merges", source_)};
    return gpt2_tokenizer(
        read_byte_pair_vocabulary({text, places[0]}, {merges, places[1]}, ExitCode::bad_data));
  }

  /// In the letters that stand for bytes, after the others.
  void add_to_vocabulary(const AddedToken& token) {
    const auto size = static_cast<std::int64_t>(tokens_.size());
    if (token.id < size) return;
    if (token.id > size)
      throw Unlike{format("the ids before that of {} are no tokens", token.content)};
    tokens_.push_back(to_byte_letters(token.content));
  }

  bool is_bytes() const {
    if (!merges_.empty() || tokens_.size() != 256 || !added_.empty()) return false;
    for (std::size_t byte = 0; byte < 256; ++byte)
      if (tokens_[byte] != to_byte_letters(std::string(1, static_cast<char>(byte)))) return false;
    return true;
  }

  std::unique_ptr<Tokenizer> characters() {
    std::string all;
    for (const std::string& token : tokens_) {
      const auto character = first_code_point(token);
      if (!character || character->num_bytes != token.size())
        throw Unlike{format("it has no merges, and its token {} is no single character",
                            Json(token).dump())};
      all += token;
    }
    if (!added_.empty() || all.empty()) throw Unlike{"it has tokens beside its characters"};
    auto tokenizer = character_tokenizer(all, source_);
    std::vector<std::int32_t> in_order(tokens_.size());
    for (std::size_t id = 0; id < in_order.size(); ++id)
      in_order[id] = static_cast<std::int32_t>(id);
    if (static_cast<std::size_t>(tokenizer->vocab_size()) != tokens_.size() ||
        tokenizer->decode(in_order) != all)
      throw Unlike{"its characters are not in the order of Unicode"};
    return tokenizer;
  }

  /// The settings that stand in the steps of its normalizer. Exactly those of sentencepiece.
  SentencePieceModel settings() {
    SentencePieceModel model;
    model.adds_dummy_prefix = model.removes_extra_spaces = false;
    const Json* normalizer = member(json_, "normalizer");
    std::vector<Json> steps;
    if (type_of(normalizer) == "Sequence") {
      const Json* list = member(*normalizer, "normalizers");
      if (list == nullptr || list->kind() != Json::Kind::array) fail("a sequence has no list");
      steps = list->items();
    } else if (normalizer != nullptr) {
      steps = {*normalizer};
    }
    std::size_t at = 0;
    const auto takes = [&](const Json& wanted) {
      if (at >= steps.size() || !(steps[at] == wanted)) return false;
      ++at;
      return true;
    };
    const auto replaces = [](const char* how, const char* from, std::string_view to) {
      return Json::object()
          .set("type", "Replace")
          .set("pattern", Json::object().set(how, from))
          .set("content", to);
    };
    if (at < steps.size() && type_of(&steps[at]) == "Precompiled") {
      charsmap_ = from_base64(text_of(steps[at++], "precompiled_charsmap")).value_or("");
      if (charsmap_.empty()) fail("its precompiled normalisation is none");
      model.charsmap = charsmap_;
    }
    if (takes(replaces("Regex", "\\A +|[ \u2581]+\\z", ""))) {
      if (!takes(replaces("Regex", " {2,}", " "))) throw unlike_normalizer();
      model.removes_extra_spaces = true;
    }
    model.adds_dummy_prefix =
        takes(Json::object().set("type", "Prepend").set("prepend", space_symbol));
    if (!takes(replaces("String", " ", space_symbol)) || at != steps.size())
      throw unlike_normalizer();
    return model;
  }

  static Unlike unlike_normalizer() {
    return {"it changes spaces or characters in another way than sentencepiece"};
  }

  PieceKind kind_of(const std::string& text, bool is_unknown, bool has_bytes) const {
    if (is_unknown) return PieceKind::unknown;
    if (has_bytes && byte_of_piece(text)) return PieceKind::byte;
    const bool is_added = std::any_of(added_.begin(), added_.end(), [&](const AddedToken& token) {
      return token.content == text;
    });
    return is_added ? PieceKind::control : PieceKind::normal;
  }

  void check_added() const {
    for (const std::string& token : tokens_)
      if (token.size() > most_piece_bytes)
        throw Unlike{format("it has a token of {} bytes", token.size())};
    for (const AddedToken& token : added_)
      if (token.id < 0 || token.id >= static_cast<std::int64_t>(tokens_.size()) ||
          tokens_[static_cast<std::size_t>(token.id)] != token.content)
        throw Unlike{format("its token {} is not in the vocabulary of its model", token.content)};
  }

  std::unique_ptr<Tokenizer> finish(const SentencePieceModel& model) {
    note_added("");
    return sentencepiece_tokenizer(sentencepiece_model_bytes(model), source_);
  }

  std::unique_ptr<Tokenizer> pieces() {
    SentencePieceModel model = settings();
    check_added();
    model.kind = SentencePieceModel::Kind::bpe;
    model.byte_fallback = is_true(*model_, "byte_fallback", false);
    const std::string unknown = text_of(*model_, "unk_token");
    if (unknown.empty()) throw Unlike{"it has no token for what is unknown (unk_token)"};
    if (!is_true(*model_, "fuse_unk", false))
      throw Unlike{"unknown characters beside each other are several tokens (fuse_unk)"};
    if (merges_.size() > most_merges) throw Unlike{"it has more than 2^24 merges"};
    // A piece has the score of its first merge.
    std::unordered_map<std::string, float> scores;
    for (std::size_t rank = 0; rank < merges_.size(); ++rank)
      scores.try_emplace(merges_[rank].first + merges_[rank].second, -static_cast<float>(rank));
    const float least = -static_cast<float>(merges_.size());
    std::vector<ScoredPiece> normal;
    for (const std::string& token : tokens_) {
      const PieceKind kind = kind_of(token, token == unknown, model.byte_fallback);
      const auto found = scores.find(token);
      const float score = kind != PieceKind::normal ? 0
                          : found != scores.end()   ? found->second
                                                    : least;
      model.pieces.push_back({token, kind, score});
      if (kind == PieceKind::normal) normal.push_back({token, score});
    }
    check_merges(normal);
    return finish(model);
  }

  /// sentencepiece makes a piece of any two beside each other that are its parts, pieces in the
  /// order of their scores.
  void check_merges(std::span<const ScoredPiece> normal) const {
    const std::vector<PieceMerge> wanted = merges_of_pieces(normal);
    const auto differs = [](const PieceMerge& a, const std::pair<std::string, std::string>& b) {
      return a.left != b.first || a.right != b.second;
    };
    bool is_same = wanted.size() == merges_.size();
    for (std::size_t i = 0; is_same && i < wanted.size(); ++i)
      is_same = !differs(wanted[i], merges_[i]);
    if (!is_same) throw Unlike{"its merges are not those that sentencepiece makes of its tokens"};
  }

  std::unique_ptr<Tokenizer> unigram() {
    if (member(json_, "pre_tokenizer") != nullptr)
      throw Unlike{format("its pre-tokenizer is {}", type_of(member(json_, "pre_tokenizer")))};
    SentencePieceModel model = settings();
    model.kind = SentencePieceModel::Kind::unigram;
    model.byte_fallback = is_true(*model_, "byte_fallback", false);
    const Json *vocabulary = member(*model_, "vocab"), *unknown = member(*model_, "unk_id");
    if (vocabulary == nullptr || vocabulary->kind() != Json::Kind::array)
      fail("its model has no vocab");
    if (unknown == nullptr || unknown->kind() != Json::Kind::integer)
      throw Unlike{"it has no token for what is unknown (unk_id)"};
    std::vector<float> scores;
    for (const Json& piece : vocabulary->items()) {
      const bool is_pair = piece.kind() == Json::Kind::array && piece.items().size() == 2 &&
                           piece.items()[0].kind() == Json::Kind::string &&
                           (piece.items()[1].kind() == Json::Kind::number ||
                            piece.items()[1].kind() == Json::Kind::integer);
      if (!is_pair) fail("a piece of its vocab is no text with a score");
      tokens_.push_back(piece.items()[0].as_string());
      scores.push_back(static_cast<float>(piece.items()[1].as_double()));
    }
    check_added();
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      model.pieces.push_back(
          {tokens_[id],
           kind_of(tokens_[id], static_cast<std::int64_t>(id) == unknown->as_integer(),
                   model.byte_fallback),
           scores[id]});
    return finish(model);
  }

  std::string_view source_;
  const Json& json_;
  const Json* model_ = nullptr;
  std::vector<AddedToken> added_;
  std::vector<std::string> tokens_;  // by id
  std::vector<std::pair<std::string, std::string>> merges_;
  std::string charsmap_;
  std::vector<std::string> notes_;
};

/// False for nearly all files that this program has not written, without reading their tokens.
bool may_be_ours(const Json& json) {
  const Json *splits = member(json, "pre_tokenizer"), *model = member(json, "model");
  return member(json, "post_processor") == nullptr &&
         (splits == nullptr || type_of(splits) == "ByteLevel") && model != nullptr &&
         !is_true(*model, "ignore_merges", false);
}

/// The tokenizer of which this program has written the file; null where it has not.
std::unique_ptr<Tokenizer> read_ours(const Json& json, std::string_view source) {
  if (!may_be_ours(json)) return nullptr;
  ReadTokenizer read;
  try {
    read = TokenizerReading(json, source).read();
  } catch (const UserError&) {
    return nullptr;  // what is wrong with it is said where it is read as the file of another tool
  }
  const bool is_ours =
      read.tokenizer && write_tokenizer_json(read.tokenizer->to_text()).text == json.dump() + "\n";
  return is_ours ? std::move(read.tokenizer) : nullptr;
}

bool is_byte_pair(const Json& json) {
  const Json* model = member(json, "model");
  return model != nullptr && type_of(model) == "BPE";
}

}  // namespace

ReadTokenizer read_tokenizer_json(std::string_view text, std::string_view source,
                                  const RolesOf& roles_of) {
  const Json json = parse_json(text, source);
  ReadTokenizer result;
  if (!is_byte_pair(json)) return TokenizerReading(json, source).read();
  if ((result.tokenizer = read_ours(json, source))) return result;
  auto made = hub_tokenizer(json, roles_of, source);
  if (auto* hub = std::get_if<HubTokenizer>(&made)) {
    result.tokenizer = std::move(hub->tokenizer);
    result.notes = std::move(hub->notes);
    return result;
  }
  // Steps of sentencepiece that stand in expressions: its library takes them.
  if (member(json, "pre_tokenizer") == nullptr) result = TokenizerReading(json, source).read();
  if (!result.tokenizer) result.reason = std::get<std::string>(std::move(made));
  return result;
}

}  // namespace fourfold::tokenizer
