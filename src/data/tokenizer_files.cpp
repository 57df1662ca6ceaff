#include "data/tokenizer_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "data/base64.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"

namespace fourfold::data {
namespace {

/// transformers has another file named tokenizer.json.
constexpr const char* own_name = "fourfold_tokenizer.json";
constexpr const char* sentencepiece_name = "tokenizer.model";
constexpr const char *vocabulary_name = "vocab.json", *merges_name = "merges.txt";
constexpr const char* json_name = "tokenizer.json";

std::string field(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->kind() == Json::Kind::string ? value->as_string() : "";
}

/// vocab.json and merges.txt, from what data/byte_pair_vocabulary.h describes.
std::vector<FoundTokenizer::File> gpt2_files(const Json& description) {
  std::vector<Json::Member> ids;
  for (const Json& token : description.find("vocabulary")->items())
    ids.push_back({token.as_string(), static_cast<std::int64_t>(ids.size())});
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : description.find("merges")->items()) merges += merge.as_string() + "\n";
  return {{vocabulary_name, Json::object(std::move(ids)).dump() + "\n"}, {merges_name, merges}};
}

/// The files of data.tokenizer_path for a tokenizer that lies in one of another form.
void add_files(FoundTokenizer& found) {
  const Json json =
      parse_json(found.tokenizer->to_text(), "the tokenizer", ExitCode::no_checkpoint);
  found.key = std::string(found.tokenizer->name());
  if (found.key == "gpt2") found.files = gpt2_files(json);
  if (found.key == "sentencepiece")
    found.files = {{sentencepiece_name, from_base64(field(json, "model")).value_or("")}};
}

FoundTokenizer look_for(const std::string& folder, std::int64_t vocab_size) {
  const auto in_folder = [&](const char* name) { return join_path(folder, name); };
  FoundTokenizer found;
  if (file_exists(in_folder(own_name))) {
    const std::string place = in_folder(own_name);
    found.tokenizer = tokenizer_from_text(read_file(place, ExitCode::no_checkpoint), place);
    const std::string_view name = found.tokenizer->name();
    if (name == "char" || name == "byte") found.key = name;
    if (!found.key.empty()) return found;
  }
  if (file_exists(in_folder(vocabulary_name)) && file_exists(in_folder(merges_name))) {
    found.tokenizer = load_tokenizer(TokenizerKind::gpt2, folder);
    found.key = "gpt2";
    for (const char* name : {vocabulary_name, merges_name})
      found.files.push_back({name, read_file(in_folder(name))});
  } else if (file_exists(in_folder(sentencepiece_name))) {
    found.tokenizer = load_tokenizer(TokenizerKind::sentencepiece, in_folder(sentencepiece_name));
    found.key = "sentencepiece";
    found.files = {{sentencepiece_name, read_file(in_folder(sentencepiece_name))}};
  } else if (!found.tokenizer && file_exists(in_folder(json_name))) {
    auto read = read_tokenizer_json(read_file(in_folder(json_name)), in_folder(json_name));
    found.tokenizer = std::move(read.tokenizer);
    for (const std::string& note : read.notes)
      found.notes.push_back(format("{}: {}", json_name, note));
    if (found.tokenizer)
      add_files(found);
    else
      found.notes.push_back(
          format("the tokenizer is not imported, because there is none of its kind here: {}: {}",
                 json_name, read.reason));
  }
  if (!found.tokenizer) found.tokenizer = number_tokenizer(vocab_size);
  return found;
}

/// What AutoTokenizer of transformers reads beside tokenizer.json.
std::string tokenizer_config(const WrittenTokenizer& written, bool is_gpt2) {
  Json config = Json::object()
                    .set("tokenizer_class", is_gpt2 ? "GPT2Tokenizer" : "PreTrainedTokenizerFast")
                    .set("add_prefix_space", false)
                    .set("clean_up_tokenization_spaces", false);
  for (const auto& [role, token] : written.roles) config.set(role, token);
  return config.dump() + "\n";
}

}  // namespace

std::vector<std::string> write_tokenizer_files(const std::string& text,
                                               const AtomicFolder& folder) {
  folder.write(own_name, text + "\n");
  const Json json = parse_json(text, "the tokenizer", ExitCode::no_checkpoint);
  const bool is_gpt2 = field(json, "tokenizer") == "gpt2";
  if (is_gpt2)
    for (const FoundTokenizer::File& file : gpt2_files(json)) folder.write(file.name, file.content);
  if (field(json, "tokenizer") == "sentencepiece")
    folder.write(sentencepiece_name, from_base64(field(json, "model")).value_or(""));
  const WrittenTokenizer written = write_tokenizer_json(text);
  // Without tokenizer.json this makes AutoTokenizer say so, in place of one that knows a single
  // token.
  folder.write("tokenizer_config.json", tokenizer_config(written, is_gpt2));
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

}  // namespace fourfold::data
