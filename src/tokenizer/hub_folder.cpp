#include "tokenizer/hub_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/small_file.h"
#include "tokenizer/compare_tokenizers.h"
#include "tokenizer/json_members.h"
#include "tokenizer/tokenizer_json.h"

namespace fourfold::tokenizer {
namespace {

constexpr const char *json_name = "tokenizer.json", *own_name = "fourfold_tokenizer.json";
constexpr const char *vocabulary_name = "vocab.json", *model_name = "tokenizer.model";
/// The largest public one has 33 MB.
constexpr std::size_t most_file_bytes = std::size_t{256} << 20;

std::string read_text(const std::string& path) {
  auto read = read_small_file(path, most_file_bytes);
  if (const auto* fault = std::get_if<FileFault>(&read))
    throw UserError(ExitCode::bad_data, format("{}: {}; {}", path, fault->reason, fault->advice));
  return std::get<std::string>(std::move(read));
}

/// What the other files of a folder give the tokenizer.
class Roles {
 public:
  explicit Roles(const std::string& folder) : folder_(folder) {}

  HubRoles operator()(const std::vector<std::string>& texts) {
    special_ = read_special_tokens(folder_, texts);
    const auto size = std::ssize(texts);
    HubRoles roles;
    for (const std::int64_t end : special_.ends)
      if (end < size)
        roles.ends.push_back(static_cast<std::int32_t>(end));
      else
        note(format("a text ends with token {} by {}, which is none of {}", end, special_.end_file,
                    json_name));
    if (special_.begin && *special_.begin < size)
      roles.begin = static_cast<std::int32_t>(*special_.begin);
    else if (special_.begin)
      note(format("a text begins with token {} by {}, which is none of {}", *special_.begin,
                  special_.begin_file, json_name));
    std::string names;
    for (const SpecialTokens::Added& token : special_.added)
      if (token.id >= size)
        names +=
            format("{}{} ({} of {})", names.empty() ? "" : ", ", token.text, token.id, token.file);
    if (!names.empty())
      note(format("left out are tokens that {} does not have: {}", json_name, names));
    return roles;
  }

  std::vector<std::string> notes(const Tokenizer& tokenizer) && {
    std::ranges::copy(special_.notes, std::back_inserter(notes_));
    say_otherwise("add_bos_token", "before", special_.adds_begin,
                  !tokenizer.encode("", "an empty text").empty());
    say_otherwise("add_eos_token", "after", special_.adds_end, !tokenizer.closing_tokens().empty());
    return std::move(notes_);
  }

 private:
  void note(std::string words) { notes_.push_back(std::move(words)); }

  void say_otherwise(const char* key, const char* where, std::optional<bool> there, bool here) {
    if (there && *there != here)
      note(format("tokenizer_config.json says {}: {}, and {}, which is taken, puts {} {} a text",
                  key, *there ? "true" : "false", json_name, here ? "a token" : "none", where));
  }

  const std::string& folder_;
  SpecialTokens special_;
  std::vector<std::string> notes_;
};

}  // namespace

bool has_hub_tokenizer(const std::string& folder) {
  const std::string path = join_path(folder, json_name);
  if (!file_exists(path)) return false;
  const Json json = parse_json(read_text(path), path);
  const Json* model = member(json, "model");
  return model != nullptr && !type_of(model).empty();
}

HubFolder read_hub_folder(const std::string& folder) {
  const std::string path = join_path(folder, json_name);
  Roles roles(folder);
  ReadTokenizer read = read_tokenizer_json(
      read_text(path), path, [&](const std::vector<std::string>& texts) { return roles(texts); });
  HubFolder result;
  result.tokenizer = std::move(read.tokenizer);
  result.reason = std::move(read.reason);
  for (const std::string& note : read.notes)
    result.notes.push_back(format("{}: {}", json_name, note));
  if (!result.tokenizer || result.tokenizer->name() != "hub") return result;
  std::ranges::move(std::move(roles).notes(*result.tokenizer), std::back_inserter(result.notes));
  for (const char* name : {vocabulary_name, model_name})
    if (file_exists(join_path(folder, name)))
      result.notes.push_back(compare_with_file(*result.tokenizer, join_path(folder, name), name));
  return result;
}

HubFolder load_hub_tokenizer(const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  HubFolder result;
  if (name == own_name) {
    result.tokenizer = tokenizer_from_text(read_text(path), path);
    return result;
  }
  const bool is_folder = std::filesystem::is_directory(path);
  if (!is_folder && name != json_name)
    throw UserError(ExitCode::bad_data,
                    format("{}: expected a folder with a {}, or that file", path, json_name));
  std::string folder = is_folder ? path : std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  result = read_hub_folder(folder);
  if (!result.tokenizer)
    throw UserError(ExitCode::bad_data,
                    format("{}: there is no tokenizer of its kind here: {}; use another tokenizer",
                           join_path(folder, json_name), result.reason));
  return result;
}

}  // namespace fourfold::tokenizer
