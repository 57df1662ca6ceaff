#include "config/sources.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/text.h"

namespace fourfold::config {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_levels = 16;  // of files that extend each other

Diagnostic at_file(const std::string& path) {
  Diagnostic problem;
  problem.file = path;
  return problem;
}

/// One name for one file, however it is reached.
std::string identity(const std::string& path) {
  std::error_code ignored;
  const fs::path canonical = fs::weakly_canonical(path, ignored);
  return canonical.empty() ? fs::path(path).lexically_normal().string() : canonical.string();
}

/// For a file of the command line: what was meant, if that is likely.
std::string advice_for(const std::string& path, const std::string& otherwise) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return otherwise;
  if (path.find('=') != path.npos) return format("to change a key write --set {}", path);
  const fs::path folder = fs::path(path).parent_path();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  const auto meant = nearest(fs::path(path).filename().string(), names);
  return meant ? format("did you mean '{}'?", (folder / *meant).string()) : otherwise;
}

}  // namespace

void Sources::refuse(Diagnostic problem, std::string message, std::string hint) {
  problem.message = std::move(message);
  problem.hint = std::move(hint);
  problems_.push_back(std::move(problem));
  are_whole_ = false;
}

void Sources::add_file(const std::string& path) {
  add(path, std::nullopt);
}

/// `named_at`: where another file names this one.
void Sources::add(const std::string& path, const std::optional<Diagnostic>& named_at) {
  const auto text = read_(path);
  if (const auto* fault = std::get_if<FileFault>(&text)) {
    if (!named_at)
      refuse(at_file(path), fault->reason, advice_for(path, fault->advice));
    else
      refuse(*named_at, format("{} {}", path, fault->reason),
             "the path is seen from the folder of the file that extends it");
    return;
  }
  const std::size_t before = problems_.size();
  YamlDocument document = parse_yaml(std::get<std::string>(text), path, problems_);
  if (problems_.size() > before && document.root.kind == YamlNode::Kind::null) are_whole_ = false;
  if (const auto base = take_extends(document, path)) {
    open_.push_back(path);
    add(base->path, base->place);
    open_.pop_back();
  }
  all_.push_back({std::move(document), std::nullopt});
}

/// Takes `extends` out of the document; none also where its value is refused.
std::optional<Sources::Extends> Sources::take_extends(YamlDocument& document,
                                                      const std::string& path) {
  auto& members = document.root.members;
  const auto found = std::find_if(members.begin(), members.end(), [](const YamlMember& member) {
    return member.key.text == extends_key;
  });
  if (found == members.end()) return std::nullopt;
  const YamlMember member = *found;
  members.erase(found);
  const bool has_value = member.value.kind != YamlNode::Kind::null;
  const Diagnostic place = document.problem_at(has_value ? member.value : member.key, "");
  if (member.value.kind != YamlNode::Kind::scalar || trim(member.value.text).empty()) {
    refuse(place,
           format("extends: expected the path of one file; got {}", member.value.described()),
           "write 'extends: base.yaml'; the path is seen from the folder of this file");
    return std::nullopt;
  }
  const std::string base =
      (fs::path(path).parent_path() / member.value.text).lexically_normal().string();
  std::vector<std::string> chain = open_;
  chain.push_back(path);
  const auto again =
      std::find_if(chain.begin(), chain.end(),
                   [id = identity(base)](const std::string& file) { return identity(file) == id; });
  if (again != chain.end()) {
    chain.erase(chain.begin(), again);
    chain.push_back(base);
    refuse(place, format("files extend each other in a circle: {}", join(chain, " -> ")),
           "remove one 'extends'");
    return std::nullopt;
  }
  if (chain.size() > most_levels) {
    refuse(place, format("more than {} files extend each other", most_levels), "merge some");
    return std::nullopt;
  }
  return Extends{base, place};
}

void Sources::add_set(const std::string& text, std::size_t number) {
  const std::string name = format("--set #{}", number);
  const auto equals = text.find('=');
  YamlNode key;
  key.kind = YamlNode::Kind::scalar;
  key.line = key.column = 1;
  key.text = text.substr(0, equals);
  if (equals == text.npos) {
    YamlDocument document;
    document.name = name;
    document.text = text;
    document.has_lines = false;
    problems_.push_back(
        document.problem_at(key, "expected key=value", "for example train.steps=100"));
    return;
  }
  const std::size_t before = problems_.size();
  YamlDocument document = parse_yaml_value(text, equals + 1, name, problems_);
  if (problems_.size() != before) {
    are_whole_ = false;
    return;
  }
  key.text = std::string(trim(key.text));
  all_.push_back({std::move(document), std::move(key)});
}

}  // namespace fourfold::config
