// Files and --set texts to a checked Config: defaults, then values in the order given, then
// defaults that follow from other keys, then the relations between keys.
#include <algorithm>
#include <filesystem>
#include <list>
#include <map>
#include <set>
#include <tuple>

#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "base/yaml.h"
#include "config/config.h"
#include "config/rules.h"
#include "config/schema.h"
#include "config/suggest.h"
#include "config/value.h"

namespace fourfold::config {
namespace {

class Loader {
 public:
  Loader() {
    config_.name = "gpt";
    for (const Key& key : keys()) store_fallback(key, config_);
  }

  void read_file(const std::string& path) {
    const std::size_t before = problems_.size();
    const YamlDocument& document = documents_.emplace_back(
        parse_yaml(fourfold::read_file(path, ExitCode::bad_config), path, problems_));
    if (problems_.size() > before && document.root.kind == YamlNode::Kind::null) is_whole_ = false;
    config_.name = std::filesystem::path(path).stem().string();
    const auto kind = document.root.kind;
    if (kind == YamlNode::Kind::map) {
      visit_members(document, "", document.root);
    } else if (kind != YamlNode::Kind::null) {
      is_whole_ = false;
      problems_.push_back(document.problem_at(
          document.root, format("expected sections with keys; got {}", document.root.described()),
          "write 'model:' and below it, indented, 'num_layers: 4'"));
    }
  }

  void read_set(const std::string& text, std::size_t number) {
    const std::string name = format("--set #{}", number);
    const auto equals = text.find('=');
    YamlNode place;
    place.line = place.column = 1;
    place.text = text.substr(0, equals);
    if (equals == text.npos) {
      documents_.emplace_back().name = name;
      documents_.back().text = text;
      documents_.back().has_lines = false;
      problems_.push_back(
          documents_.back().problem_at(place, "expected key=value", "for example train.steps=100"));
      return;
    }
    const std::size_t before = problems_.size();
    const YamlDocument& document =
        documents_.emplace_back(parse_yaml_value(text, equals + 1, name, problems_));
    place.text = std::string(trim(place.text));
    if (problems_.size() == before)
      visit(document, place.text, place, document.root);
    else
      is_whole_ = false;
  }

  Config finish() {
    derive_defaults();
    share_values(config_);
    check_rules();
    sort_problems();
    if (!problems_.empty()) throw_together(problems_, ExitCode::bad_config);
    return config_;
  }

 private:
  struct Setting {
    const YamlDocument* document;
    YamlNode place;
    std::size_t order;  // later ones win
  };

  void visit_members(const YamlDocument& document, const std::string& path, const YamlNode& map) {
    for (const YamlMember& member : map.members)
      visit(document, path.empty() ? member.key.text : path + "." + member.key.text, member.key,
            member.value);
  }

  void visit(const YamlDocument& document, const std::string& path, const YamlNode& place,
             const YamlNode& value) {
    if (const Key* key = find_key(path)) {
      // A dot written inside a key of a file would hide two levels in one.
      if (document.has_lines && place.text.find('.') != std::string::npos)
        problems_.push_back(
            document.problem_at(place, format("'{}' holds a dot", place.text), nested_form(*key)));
      else
        set(document, *key, value);
      return;
    }
    const auto all = sections();
    if (std::find(all.begin(), all.end(), path) == all.end()) {
      const Suggestion meant = suggest(path);
      problems_.push_back(document.problem_at(place, format("unknown key '{}'", path), meant.text));
      wrong_.insert(meant.key);
    } else if (value.kind == YamlNode::Kind::map) {
      visit_members(document, path, value);
    } else if (value.kind != YamlNode::Kind::null || !document.has_lines) {
      problems_.push_back(
          document.problem_at(value, format("'{}' is a section; got {}", path, value.described()),
                              names_in_words(path)));
    }
  }

  static std::string nested_form(const Key& key) {
    return format("write '{}:' and below it, indented, '{}: ...'", section_of(key.path),
                  leaf_of(key.path));
  }

  void set(const YamlDocument& document, const Key& key, const YamlNode& value) {
    if (const auto rejection = store_value(key, value, config_)) {
      problems_.push_back(
          document.problem_at(*rejection->where, rejection->message, rejection->hint));
      wrong_.insert(key.path);
    }
    YamlNode place = value;
    place.items.clear();
    place.members.clear();
    settings_.insert_or_assign(key.path, Setting{&document, std::move(place), settings_made_++});
  }

  void derive_defaults() {
    for (const Key& key : keys())
      if (key.derive && !settings_.contains(key.path)) key.derive(config_);
  }

  /// Only among keys that are right by themselves: what follows from another problem is not
  /// reported.
  void check_rules() {
    if (!is_whole_) return;
    for (const Rule& rule : rules()) {
      const bool doubtful =
          std::any_of(rule.keys.begin(), rule.keys.end(),
                      [&](const std::string& key) { return wrong_.contains(key); });
      if (doubtful) continue;
      if (const auto finding = rule.check(config_)) problems_.push_back(placed(rule, *finding));
    }
  }

  /// As they stand in the files, the files in the order given.
  void sort_problems() {
    const auto order = [this](const Diagnostic& problem) {
      const auto document =
          std::find_if(documents_.begin(), documents_.end(),
                       [&](const YamlDocument& d) { return d.name == problem.file; });
      return std::tuple(std::distance(documents_.begin(), document), problem.line, problem.column);
    };
    std::stable_sort(problems_.begin(), problems_.end(),
                     [&](const Diagnostic& a, const Diagnostic& b) { return order(a) < order(b); });
  }

  /// At the value given last among the rule's keys, the one most likely meant to change; else at
  /// the file.
  Diagnostic placed(const Rule& rule, const Finding& finding) const {
    const Setting* latest = nullptr;
    for (const std::string& key : rule.keys) {
      const auto found = settings_.find(key);
      if (found != settings_.end() && (latest == nullptr || found->second.order > latest->order))
        latest = &found->second;
    }
    if (latest != nullptr)
      return latest->document->problem_at(latest->place, finding.message, finding.hint);
    Diagnostic problem;
    problem.file = documents_.empty() ? "configuration" : documents_.front().name;
    problem.message = finding.message;
    problem.hint = finding.hint;
    return problem;
  }

  Config config_;
  std::list<YamlDocument> documents_;  // settings point into it
  std::vector<Diagnostic> problems_;
  std::map<std::string, Setting> settings_;
  std::size_t settings_made_ = 0;
  std::set<std::string> wrong_;  // keys that got a bad value, or a misspelt name
  bool is_whole_ = true;         // false: part of a text could not be read
};

}  // namespace

void share_values(Config& config) {
  config.train.run_name = config.name;
  config.train.run_dir = config.dir;
  config.train.seed = config.data.seed = config.sample.seed = config.seed;
  config.plan.seq_length = config.data.seq_length;
  config.data.vocab_size =
      config.data.format == data::Format::synthetic ? config.model.vocab_size : 0;
}

Config load(std::span<const std::string> files, std::span<const std::string> sets) {
  Loader loader;
  for (const std::string& file : files) loader.read_file(file);
  for (std::size_t i = 0; i < sets.size(); ++i) loader.read_set(sets[i], i + 1);
  return loader.finish();
}

}  // namespace fourfold::config
