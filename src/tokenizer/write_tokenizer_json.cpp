#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "tokenizer/base64.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/byte_pair_vocabulary.h"
#include "tokenizer/hub_file.h"
#include "tokenizer/json_members.h"
#include "tokenizer/piece_merges.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

using Kind = SentencePieceModel::Kind;
using PieceKind = SentencePieceModel::PieceKind;

Json of_type(const char* type) {
  return Json::object().set("type", type);
}

Json sequence(const char* member, std::vector<Json> steps) {
  return of_type("Sequence").set(member, Json::array(std::move(steps)));
}

Json replace(std::string_view from, std::string_view to, const char* how = "String") {
  return of_type("Replace").set("pattern", Json::object().set(how, from)).set("content", to);
}

Json byte_level(bool uses_regex) {
  return of_type("ByteLevel")
      .set("add_prefix_space", false)
      .set("trim_offsets", true)
      .set("use_regex", uses_regex);
}

/// A token that a text gives where it spells it, for special ones are looked for there first.
Json special_token(std::int64_t id, std::string_view content) {
  return Json::object()
      .set("id", id)
      .set("content", content)
      .set("single_word", false)
      .set("lstrip", false)
      .set("rstrip", false)
      .set("normalized", false)
      .set("special", true);
}

struct Parts {
  Json model, normalizer, pre_tokenizer, decoder;
  Json special = Json::array();
};

std::string whole(Parts parts) {
  return Json::object()
             .set("version", "1.0")
             .set("truncation", Json())
             .set("padding", Json())
             .set("added_tokens", std::move(parts.special))
             .set("normalizer", std::move(parts.normalizer))
             .set("pre_tokenizer", std::move(parts.pre_tokenizer))
             .set("post_processor", Json())
             .set("decoder", std::move(parts.decoder))
             .set("model", std::move(parts.model))
             .dump() +
         "\n";
}

/// `vocabulary` and `merges` as the library wants them.
Json byte_pair_model(std::vector<Json::Member> vocabulary, std::vector<Json> merges) {
  return of_type("BPE")
      .set("dropout", Json())
      .set("unk_token", Json())
      .set("continuing_subword_prefix", Json())
      .set("end_of_word_suffix", Json())
      .set("fuse_unk", false)
      .set("byte_fallback", false)
      .set("ignore_merges", false)
      .set("vocab", Json::object(std::move(vocabulary)))
      .set("merges", Json::array(std::move(merges)));
}

WrittenTokenizer of_characters(const Json& description) {
  std::string_view rest = description.find("vocabulary")->as_string();
  std::vector<Json::Member> vocabulary;
  while (const auto next = first_code_point(rest)) {
    vocabulary.push_back({std::string(rest.substr(0, next->num_bytes)), vocabulary.size()});
    rest.remove_prefix(next->num_bytes);
  }
  WrittenTokenizer result;
  result.text = whole({.model = byte_pair_model(std::move(vocabulary), {}),
                       .normalizer = {},
                       .pre_tokenizer = {},
                       .decoder = of_type("Fuse")});
  result.notes.emplace_back(
      "transformers leaves out a character that has no token, and says nothing; here it is an "
      "error");
  return result;
}

WrittenTokenizer of_bytes() {
  std::vector<Json::Member> vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.push_back({to_byte_letters(std::string(1, static_cast<char>(byte))), byte});
  WrittenTokenizer result;
  result.text = whole({.model = byte_pair_model(std::move(vocabulary), {}),
                       .normalizer = {},
                       .pre_tokenizer = byte_level(false),
                       .decoder = byte_level(false)});
  return result;
}

/// Says that a text which spells a special token gives that token.
void note_special(WrittenTokenizer& result, std::string_view names) {
  result.notes.push_back(format(
      "there a text that spells {} gives that token, unless split_special_tokens=True is passed",
      names));
}

WrittenTokenizer of_gpt2(const Json& description) {
  const BytePairVocabulary read =
      read_description(description, "the tokenizer", ExitCode::no_checkpoint);
  std::vector<Json::Member> vocabulary;
  for (const std::string& token : read.tokens)
    vocabulary.push_back({to_byte_letters(token), vocabulary.size()});
  const auto letters = [&](std::int32_t id) {
    return Json(to_byte_letters(read.tokens[static_cast<std::size_t>(id)]));
  };
  std::vector<Json> merges;
  for (const BytePairMerge& merge : read.merges)
    merges.push_back(Json::array({letters(merge.left), letters(merge.right)}));
  Parts parts{.model = byte_pair_model(std::move(vocabulary), std::move(merges)),
              .normalizer = {},
              .pre_tokenizer = byte_level(true),
              .decoder = byte_level(true)};
  WrittenTokenizer result;
  if (read.end_of_document) {
    const std::string end = read.tokens[static_cast<std::size_t>(*read.end_of_document)];
    parts.special.push(special_token(*read.end_of_document, end));
    for (const char* role : {"bos_token", "eos_token", "unk_token"})
      if (role != std::string_view("bos_token") || !read.begin_of_text)
        result.roles.emplace_back(role, end);
    note_special(result, end);
  }
  if (read.begin_of_text) {
    const std::string begin = read.tokens[static_cast<std::size_t>(*read.begin_of_text)];
    parts.special.push(special_token(*read.begin_of_text, begin));
    result.roles.emplace_back("bos_token", begin);
    note_special(result, begin);
  }
  result.text = whole(std::move(parts));
  return result;
}

/// Why a model computes other ids in tokenizers, or has nothing like it there; empty: neither.
std::string why_not(const SentencePieceModel& model) {
  if (model.kind != Kind::bpe && model.kind != Kind::unigram)
    return "it is a sentencepiece model of words or characters";
  if (model.space_is_suffix || !model.escapes_spaces)
    return "its spaces stand behind words, or are not written as U+2581";
  for (const auto& piece : model.pieces)
    if (piece.kind == PieceKind::user_defined || piece.kind == PieceKind::unused)
      return format("its piece {} is user-defined or unused", Json(piece.text).dump());
  return {};
}

/// The steps of sentencepiece before pieces are looked for.
Json normalizer_of(const SentencePieceModel& model) {
  std::vector<Json> steps;
  if (model.has_charsmap)
    steps.push_back(of_type("Precompiled").set("precompiled_charsmap", to_base64(model.charsmap)));
  if (model.removes_extra_spaces) {
    // Not its Strip, which also takes tabs and line ends. At the end sentencepiece takes U+2581
    // too.
    steps.push_back(replace("\\A +|[ \u2581]+\\z", "", "Regex"));
    steps.push_back(replace(" {2,}", " ", "Regex"));
  }
  if (model.adds_dummy_prefix) steps.push_back(of_type("Prepend").set("prepend", space_symbol));
  steps.push_back(replace(" ", space_symbol));
  return sequence("normalizers", std::move(steps));
}

Json decoder_of(const SentencePieceModel& model) {
  std::vector<Json> steps = {replace(space_symbol, " "), of_type("ByteFallback"), of_type("Fuse")};
  if (model.adds_dummy_prefix)
    steps.push_back(of_type("Strip").set("content", " ").set("start", 1).set("stop", 0));
  return sequence("decoders", std::move(steps));
}

Json pieces_model(const SentencePieceModel& model) {
  const auto unknown =
      std::find_if(model.pieces.begin(), model.pieces.end(),
                   [](const auto& piece) { return piece.kind == PieceKind::unknown; });
  if (model.kind == Kind::unigram) {
    std::vector<Json> pieces;
    for (const auto& piece : model.pieces)
      pieces.push_back(Json::array({Json(piece.text), Json(static_cast<double>(piece.score))}));
    return of_type("Unigram")
        .set("unk_id", unknown - model.pieces.begin())
        .set("vocab", Json::array(std::move(pieces)))
        .set("byte_fallback", model.byte_fallback);
  }
  std::vector<Json::Member> vocabulary;
  std::vector<ScoredPiece> normal;
  for (const auto& piece : model.pieces) {
    vocabulary.push_back({std::string(piece.text), vocabulary.size()});
    if (piece.kind == PieceKind::normal) normal.push_back({piece.text, piece.score});
  }
  std::vector<Json> merges;
  for (const PieceMerge& merge : merges_of_pieces(normal))
    merges.push_back(Json::array({Json(merge.left), Json(merge.right)}));
  return byte_pair_model(std::move(vocabulary), std::move(merges))
      .set("unk_token", unknown->text)
      .set("fuse_unk", true)
      .set("byte_fallback", model.byte_fallback);
}

WrittenTokenizer of_sentencepiece(const Json& description) {
  const std::string bytes = from_base64(description.find("model")->as_string()).value_or("");
  const SentencePieceModel model =
      read_sentencepiece_model(bytes, "the tokenizer", ExitCode::no_checkpoint);
  WrittenTokenizer result;
  result.reason = why_not(model);
  if (!result.reason.empty()) return result;
  Parts parts{.model = pieces_model(model),
              .normalizer = normalizer_of(model),
              .pre_tokenizer = {},
              .decoder = decoder_of(model)};
  std::string names;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (piece.kind != PieceKind::control && piece.kind != PieceKind::unknown) continue;
    parts.special.push(special_token(static_cast<std::int64_t>(id), piece.text));
    names += (names.empty() ? "" : " or ") + std::string(piece.text);
    const char* role = piece.kind == PieceKind::unknown ? "unk_token"
                       : piece.text == "<s>"            ? "bos_token"
                       : piece.text == "</s>"           ? "eos_token"
                       : piece.text == "<pad>"          ? "pad_token"
                                                        : nullptr;
    if (role != nullptr) result.roles.emplace_back(role, piece.text);
  }
  note_special(result, names);
  if (model.kind == Kind::unigram && model.byte_fallback)
    result.notes.emplace_back("there a text that spells <0x41> may give the token of that byte");
  if (model.has_charsmap)
    result.notes.emplace_back(
        "there characters are normalised in groups with their accents, which may give "
        "other tokens of rare groups");
  result.text = whole(std::move(parts));
  return result;
}

/// The file as it was read.
WrittenTokenizer of_hub(const Json& description) {
  const Json& file = *description.find("file");
  auto read = read_hub_file(file, "the tokenizer");
  WrittenTokenizer result;
  if (auto* reason = std::get_if<std::string>(&read)) {
    result.reason = std::move(*reason);
    return result;
  }
  const auto& tokens = std::get<HubFile>(read).tokens;
  const auto text_at = [&](const Json& id) {
    return tokens[static_cast<std::size_t>(id.as_integer())];
  };
  const auto& ends = items_at(description, "ends");
  if (!ends.empty()) result.roles.emplace_back("eos_token", text_at(ends.front()));
  if (const Json* begin = member(description, "begin"); begin != nullptr)
    result.roles.emplace_back("bos_token", text_at(*begin));
  result.text = file.dump() + "\n";
  return result;
}

}  // namespace

WrittenTokenizer write_tokenizer_json(const std::string& text) {
  const Json description = parse_json(text, "the tokenizer", ExitCode::no_checkpoint);
  const Json* kind = description.find("tokenizer");
  const std::string name =
      kind != nullptr && kind->kind() == Json::Kind::string ? kind->as_string() : "";
  if (name == "character") return of_characters(description);
  if (name == "byte") return of_bytes();
  if (name == "gpt2") return of_gpt2(description);
  if (name == "sentencepiece") return of_sentencepiece(description);
  if (name == "hub") return of_hub(description);
  WrittenTokenizer none;
  none.reason = "its tokens are numbers, which have no text";
  return none;
}

}  // namespace fourfold::tokenizer
