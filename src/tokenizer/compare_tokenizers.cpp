#include "tokenizer/compare_tokenizers.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/json_members.h"
#include "tokenizer/sentencepiece_model.h"

namespace fourfold::tokenizer {
namespace {

/// Texts on which tokenizers of one vocabulary differ, if anywhere: spaces, digits, accents,
/// scripts, signs, a character of rare use.
constexpr std::string_view samples[] = {
    "The quick brown fox jumps over the lazy dog, doesn't it?",
    "  two  spaces\tand\ttabs \n\n lines\r\n",
    "In 1984, 3.14159 and 1000000 were 2/3 of 42%.",
    "Caf\u00e9 na\u00efve stra\u00dfe e\u0301 \u00c5ngstr\u00f6m",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0645\u0631\u062d\u0628\u0627",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3053\u3093\u306b\u3061\u306f \uc548\ub155",
    "if (a[i] != b->c) { return x_1 + y2; }  // \U0001f600\U0001f468\u200d\U0001f469 \U0001d7d8"};

/// The tokens of tokenizer.json by id, in the letters of the file.
std::vector<std::string> letters_of(const Json& file) {
  std::vector<std::string> letters;
  const Json* model = member(file, "model");
  const Json* vocabulary = model != nullptr ? member(*model, "vocab") : nullptr;
  if (vocabulary == nullptr || vocabulary->kind() != Json::Kind::object) return letters;
  for (const Json::Member& token : vocabulary->members()) {
    const auto id = static_cast<std::size_t>(token.value.as_integer());
    if (id >= letters.size()) letters.resize(id + 1);
    letters[id] = token.key;
  }
  return letters;
}

/// Where two lists of tokens differ first; empty: nowhere. Tokens that only one list has at its end
/// are said too.
std::string difference(std::span<const std::string> here, std::span<const std::string> there,
                       const std::string& name) {
  const auto shown = [](std::span<const std::string> list, std::size_t at) {
    return at < list.size() ? json_quoted(list[at]) : "none";
  };
  for (std::size_t id = 0; id < std::max(here.size(), there.size()); ++id)
    if (id >= here.size() || id >= there.size() || here[id] != there[id])
      return format("token {} is {} there and {} by {}", id, shown(here, id), shown(there, id),
                    name);
  return {};
}

std::vector<std::string> tokens_of_vocabulary(const std::string& path) {
  return letters_of(
      Json::object().set("model", Json::object().set("vocab", parse_json(read_file(path), path))));
}

std::vector<std::string> tokens_of_model(const std::string& bytes, const std::string& path) {
  std::vector<std::string> tokens;
  const SentencePieceModel model = read_sentencepiece_model(bytes, path, ExitCode::bad_data);
  for (const SentencePieceModel::Piece& piece : model.pieces) tokens.emplace_back(piece.text);
  return tokens;
}

/// Where two tokenizers differ on the samples; empty: nowhere.
std::string sample_difference(const Tokenizer& here, const Tokenizer& there,
                              const std::string& name) {
  const std::size_t before = here.encode("", "an empty text").size();
  for (const std::string_view text : samples) {
    std::vector<std::int32_t> ids = here.encode(text, "a sample");
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(before));
    if (ids != there.encode(text, "a sample"))
      return format("{} has other ids by {}", json_quoted(text), name);
  }
  return {};
}

}  // namespace

std::string compare_with_file(const Tokenizer& tokenizer, const std::string& path,
                              const std::string& name) {
  const std::string head = format("tokenizer.json is read, and not {}: ", name);
  const bool is_model = name == "tokenizer.model";
  try {
    const Json description = parse_json(tokenizer.to_text(), "the tokenizer");
    const std::vector<std::string> here = letters_of(*description.find("file"));
    const std::string bytes = is_model ? read_file(path) : "";
    const std::vector<std::string> there =
        is_model ? tokens_of_model(bytes, path) : tokens_of_vocabulary(path);
    std::string differs = difference(here, there, name);
    if (differs.empty() && is_model)
      differs =
          sample_difference(tokenizer, *load_tokenizer(TokenizerKind::sentencepiece, path), name);
    if (!differs.empty()) return head + differs;
    return format("{}the {} tokens are the same{}", head, format_grouped(std::ssize(here)),
                  is_model ? format(", and {} texts have the same ids", std::size(samples)) : "");
  } catch (const UserError& error) {
    return format("{}that cannot be read: {}", head, error.what());
  }
}

}  // namespace fourfold::tokenizer
