#include "tokenizer/tokenizer_files.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "tokenizer/base64.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/byte_pair_vocabulary.h"
#include "tokenizer/gpt2.h"
#include "tokenizer/hub_folder.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace fourfold::tokenizer {
namespace {

/// transformers has another file named tokenizer.json.
constexpr const char* own_name = "fourfold_tokenizer.json";
constexpr const char* sentencepiece_name = "tokenizer.model";
constexpr const char *vocabulary_name = "vocab.json", *merges_name = "merges.txt";
constexpr const char *json_name = "tokenizer.json", *map_name = "special_tokens_map.json";

std::string field(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->kind() == Json::Kind::string ? value->as_string() : "";
}

/// vocab.json and merges.txt, from what tokenizer/byte_pair_vocabulary.h describes; and the end of
/// documents and the beginning of texts where those are none that their reader knows.
std::vector<FoundTokenizer::File> gpt2_files(const Json& description) {
  std::vector<Json::Member> ids;
  for (const Json& token : description.find("vocabulary")->items())
    ids.push_back({token.as_string(), static_cast<std::int64_t>(ids.size())});
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : description.find("merges")->items()) merges += merge.as_string() + "\n";
  std::vector<FoundTokenizer::File> files = {
      {vocabulary_name, Json::object(std::move(ids)).dump() + "\n"}, {merges_name, merges}};
  Json map = Json::object();
  for (const auto& [key, role] :
       {std::pair("end_of_document", "eos_token"), {"begin_of_text", "bos_token"}}) {
    const Json* id = description.find(key);
    if (id == nullptr) continue;
    const auto& tokens = description.find("vocabulary")->items();
    const std::string& letters = tokens[static_cast<std::size_t>(id->as_integer())].as_string();
    map.set(role, from_byte_letters(letters).value_or(""));
  }
  if (!map.members().empty()) files.push_back({map_name, map.dump() + "\n"});
  return files;
}

/// The files of data.tokenizer_path for a tokenizer that lies in one of another form.
void add_files(FoundTokenizer& found) {
  const Json json =
      parse_json(found.tokenizer->to_text(), "the tokenizer", ExitCode::no_checkpoint);
  found.key = std::string(found.tokenizer->name());
  if (found.key == "gpt2") found.files = gpt2_files(json);
  if (found.key == "hub") found.files = {{own_name, found.tokenizer->to_text() + "\n"}};
  if (found.key == "sentencepiece")
    found.files = {{sentencepiece_name, from_base64(field(json, "model")).value_or("")}};
}

/// The texts of tokens by id, in the letters of tokenizer.json; none for kinds that have none.
std::vector<std::string> letters_of(const Tokenizer& tokenizer) {
  const Json json = parse_json(tokenizer.to_text(), "the tokenizer", ExitCode::no_checkpoint);
  std::vector<std::string> letters;
  if (tokenizer.name() == "gpt2")
    for (const Json& token : json.find("vocabulary")->items()) letters.push_back(token.as_string());
  if (tokenizer.name() == "sentencepiece") {
    const std::string bytes = from_base64(field(json, "model")).value_or("");
    const SentencePieceModel model =
        read_sentencepiece_model(bytes, "the tokenizer", ExitCode::no_checkpoint);
    for (const SentencePieceModel::Piece& piece : model.pieces) letters.emplace_back(piece.text);
  }
  return letters;
}

void add_to_gpt2(FoundTokenizer& found, const SpecialTokens& special, std::int64_t most_tokens) {
  const std::string before = found.tokenizer->to_text();
  BytePairVocabulary vocabulary =
      read_description(parse_json(before, "the tokenizer", ExitCode::no_checkpoint),
                       "the tokenizer", ExitCode::no_checkpoint);
  use_special_tokens(vocabulary, special, most_tokens, found.notes);
  auto tokenizer = gpt2_tokenizer(std::move(vocabulary));
  if (tokenizer->to_text() == before) return;  // the files stay as they are
  found.tokenizer = std::move(tokenizer);
  add_files(found);
}

/// What the other files of the folder say: done where it can be, and else noted. `source` is the
/// file that the tokenizer was read from.
void use_other_files(FoundTokenizer& found, const std::string& folder, std::int64_t vocab_size,
                     const std::string& source) {
  const std::vector<std::string> letters =
      found.tokenizer ? letters_of(*found.tokenizer) : std::vector<std::string>();
  std::vector<std::string> texts = letters;
  if (found.key == "gpt2")
    for (std::string& text : texts) text = from_byte_letters(text).value_or("");
  const SpecialTokens special = read_special_tokens(folder, texts);
  for (const auto* notes : {&special.notes, &special.notes_of_one_end})
    std::ranges::copy(*notes, std::back_inserter(found.notes));
  if (!letters.empty() && source != json_name)
    if (auto note = compare_with_tokenizer_json(folder, letters, source); !note.empty())
      found.notes.push_back(std::move(note));
  if (found.key == "gpt2") add_to_gpt2(found, special, vocab_size);
  std::int64_t end = -1;  // none
  if (found.tokenizer) end = found.tokenizer->end_of_document().value_or(-1);
  if (special.end && end != *special.end)
    found.notes.push_back(format(
        "a text ends with token {} there ({}), and {} here: `generate` goes on after that token",
        *special.end, special.end_file, end < 0 ? "with none" : format("with token {}", end)));
  std::int64_t begin = -1;  // none
  if (found.tokenizer) begin = found.tokenizer->begin_of_text().value_or(-1);
  if (special.begin && special.begin != special.end && begin != *special.begin)
    found.notes.push_back(format(
        "a text begins with token {} there ({}), and with {} here where the prompt is empty",
        *special.begin, special.begin_file, begin < 0 ? "token 0" : format("token {}", begin)));
  std::string names;
  for (const SpecialTokens::Added& token : special.added)
    if (token.id != end && token.id != begin && (source != json_name || token.file != json_name))
      names += (names.empty() ? "" : ", ") + token.text;
  if (found.tokenizer && !names.empty())
    found.notes.push_back(
        format("a text that spells one of these tokens does not give it here: {}", names));
}

FoundTokenizer look_for(const std::string& folder, std::int64_t vocab_size) {
  const auto in_folder = [&](const char* name) { return join_path(folder, name); };
  FoundTokenizer found;
  std::string source = own_name;
  if (file_exists(in_folder(own_name))) {
    const std::string place = in_folder(own_name);
    found.tokenizer = tokenizer_from_text(read_file(place, ExitCode::no_checkpoint), place);
    const std::string_view name = found.tokenizer->name();
    if (name == "char" || name == "byte") found.key = name;
    if (name == "hub") add_files(found);
    if (!found.key.empty()) return found;
  }
  HubFolder hub;
  if (!found.tokenizer && has_hub_tokenizer(folder)) {
    hub = read_hub_folder(folder);
    if (hub.tokenizer && hub.tokenizer->name() == "hub") {
      found.tokenizer = std::move(hub.tokenizer);
      found.notes = std::move(hub.notes);
      add_files(found);
      return found;
    }
  }
  const bool is_refused = !hub.reason.empty() && !file_exists(in_folder(sentencepiece_name));
  if (!is_refused && file_exists(in_folder(vocabulary_name)) &&
      file_exists(in_folder(merges_name))) {
    found.tokenizer = gpt2_tokenizer(read_byte_pair_folder(folder));
    found.key = "gpt2";
    source = vocabulary_name;
    for (const char* name : {vocabulary_name, merges_name})
      found.files.push_back({name, read_file(in_folder(name))});
  } else if (file_exists(in_folder(sentencepiece_name))) {
    found.tokenizer = load_tokenizer(TokenizerKind::sentencepiece, in_folder(sentencepiece_name));
    found.key = "sentencepiece";
    source = sentencepiece_name;
    found.files = {{sentencepiece_name, read_file(in_folder(sentencepiece_name))}};
  } else if (!found.tokenizer && file_exists(in_folder(json_name))) {
    source = json_name;
    if (!hub.tokenizer && !is_refused) hub = read_hub_folder(folder);  // says what is wrong with it
    found.tokenizer = std::move(hub.tokenizer);
    found.notes = std::move(hub.notes);
    if (found.tokenizer) add_files(found);
  }
  if (!hub.reason.empty())
    found.notes.push_back(
        found.tokenizer
            ? format("{} is read, and not {}, which has what is not known here: {}", source,
                     json_name, hub.reason)
            : format("the tokenizer is not imported, because there is none of its kind here: {}: "
                     "{}",
                     json_name, hub.reason));
  use_other_files(found, folder, vocab_size, source);
  if (!found.tokenizer) found.tokenizer = number_tokenizer(vocab_size);
  return found;
}

/// What AutoTokenizer of transformers reads beside tokenizer.json.
std::string tokenizer_config(const WrittenTokenizer& written, std::string_view kind) {
  Json config = Json::object().set("tokenizer_class",
                                   kind == "gpt2" ? "GPT2Tokenizer" : "PreTrainedTokenizerFast");
  if (kind != "hub") config.set("add_prefix_space", false);  // as the file of the hub says
  config.set("clean_up_tokenization_spaces", false);
  for (const auto& [role, token] : written.roles) config.set(role, token);
  return config.dump() + "\n";
}

}  // namespace

std::vector<std::string> write_tokenizer_files(const std::string& text,
                                               const AtomicFolder& folder) {
  folder.write(own_name, text + "\n");
  const Json json = parse_json(text, "the tokenizer", ExitCode::no_checkpoint);
  const std::string kind = field(json, "tokenizer");
  if (kind == "gpt2")
    for (const FoundTokenizer::File& file : gpt2_files(json)) folder.write(file.name, file.content);
  if (kind == "sentencepiece")
    folder.write(sentencepiece_name, from_base64(field(json, "model")).value_or(""));
  const WrittenTokenizer written = write_tokenizer_json(text);
  // Without tokenizer.json this makes AutoTokenizer say so, in place of one that knows a single
  // token.
  folder.write("tokenizer_config.json", tokenizer_config(written, kind));
  if (written.text.empty())
    return {format("{} is not written, because Hugging Face has no tokenizer of this kind: {}",
                   json_name, written.reason)};
  folder.write(json_name, written.text);
  return written.notes;
}

FoundTokenizer find_tokenizer(const std::string& folder, std::int64_t vocab_size) {
  FoundTokenizer found = look_for(folder, vocab_size);
  if (found.tokenizer->vocab_size() > vocab_size)
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: its tokenizer has {} tokens and its model {} (vocab_size); bring "
                           "the tokenizer that belongs to the model",
                           folder, found.tokenizer->vocab_size(), vocab_size));
  return found;
}

}  // namespace fourfold::tokenizer
