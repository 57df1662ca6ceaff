#include "cli/tokenizer_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "data/base64.h"

namespace fourfold::cli {
namespace {

/// transformers has another file named tokenizer.json.
constexpr const char* own_name = "fourfold_tokenizer.json";
constexpr const char* sentencepiece_name = "tokenizer.model";
constexpr const char *vocabulary_name = "vocab.json", *merges_name = "merges.txt";

FoundTokenizer look_for(const std::string& folder, std::int64_t vocab_size) {
  const auto in_folder = [&](const char* name) { return join_path(folder, name); };
  FoundTokenizer found;
  if (file_exists(in_folder(own_name))) {
    const std::string place = in_folder(own_name);
    found.tokenizer = data::tokenizer_from_text(read_file(place, ExitCode::no_checkpoint), place);
    const std::string_view name = found.tokenizer->name();
    if (name == "char" || name == "byte") found.key = name;
    if (!found.key.empty()) return found;
  }
  if (file_exists(in_folder(vocabulary_name)) && file_exists(in_folder(merges_name))) {
    found.tokenizer = data::load_tokenizer(data::TokenizerKind::gpt2, folder);
    found.key = "gpt2";
    found.files = {vocabulary_name, merges_name};
  } else if (file_exists(in_folder(sentencepiece_name))) {
    found.tokenizer =
        data::load_tokenizer(data::TokenizerKind::sentencepiece, in_folder(sentencepiece_name));
    found.key = "sentencepiece";
    found.files = {sentencepiece_name};
  } else if (!found.tokenizer) {
    found.tokenizer = data::number_tokenizer(vocab_size);
  }
  return found;
}

/// The files of transformers' GPT2Tokenizer, from what data/byte_pair_vocabulary.h describes.
void write_gpt2(const Json& description, const AtomicFolder& folder) {
  std::vector<Json::Member> ids;
  for (const Json& token : description.find("vocabulary")->items())
    ids.push_back({token.as_string(), static_cast<std::int64_t>(ids.size())});
  folder.write(vocabulary_name, Json::object(std::move(ids)).dump() + "\n");
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : description.find("merges")->items()) merges += merge.as_string() + "\n";
  folder.write(merges_name, merges);
  Json config = Json::object().set("tokenizer_class", "GPT2Tokenizer");
  config.set("add_prefix_space", false);
  for (const char* key : {"bos_token", "eos_token", "unk_token"}) config.set(key, "<|endoftext|>");
  folder.write("tokenizer_config.json", config.dump() + "\n");
}

}  // namespace

void write_tokenizer_files(const std::string& text, const AtomicFolder& folder) {
  folder.write(own_name, text + "\n");
  const Json json = parse_json(text, "the tokenizer", ExitCode::no_checkpoint);
  const auto field = [&](const char* key) -> std::string {
    const Json* value = json.find(key);
    return value != nullptr && value->kind() == Json::Kind::string ? value->as_string() : "";
  };
  if (field("tokenizer") == "gpt2") write_gpt2(json, folder);
  if (field("tokenizer") == "sentencepiece")
    folder.write(sentencepiece_name, data::from_base64(field("model")).value_or(""));
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

}  // namespace fourfold::cli
