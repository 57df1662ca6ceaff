// Texts to a checked Config: defaults, then values in the order given, then
// defaults that follow from other keys, then the relations between keys.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "base/format.h"
#include "base/text.h"
#include "base/yaml.h"
#include "config/config.h"
#include "config/family.h"
#include "config/rules.h"
#include "config/schema.h"
#include "config/sources.h"
#include "config/suggest.h"
#include "config/value.h"
#include "model/model.h"

namespace fourfold::config {
namespace {

/// The largest file: what the YAML reader takes.
constexpr std::size_t most_bytes = std::size_t{1} << 20;

constexpr const char *kind_key = "model.kind", *optimizer_key = "optimizer.name";
/// True if where other keys are stored depends on the key, so that it is read before them.
bool is_first(std::string_view path) {
  return path == kind_key || path == optimizer_key;
}

class Loader {
 public:
  explicit Loader(const Sources& sources) : sources_(sources), problems_(sources.problems()) {
    for (const Source& source : sources.all())
      for (const char* path : {kind_key, optimizer_key}) find_first(source, path);
    for (const Key& key : keys())
      if (!is_first(key.path)) store_fallback(key, config_);
    for (const Source& source : sources.all()) read(source);
  }

  /// `name`: of the run, unless it is set.
  Config finish(std::string name) {
    if (!settings_.contains("run.name")) config_.name = std::move(name);
    derive_defaults();
    check_rules();
    sort_problems();
    if (problems_.size() > num_of_grid_) throw_together(problems_, ExitCode::bad_config);
    for (const Key& key : keys())
      config_.origins.set(key.path, {origin_of(key), value_text(key, config_)});
    if (!problems_.empty()) refuse_grid();
    return config_;
  }

 private:
  [[noreturn]] void refuse_grid() const {
    try {
      throw_together(problems_, ExitCode::bad_config);
    } catch (const UserError& error) {
      throw UnfitGrid(error.what(), config_);
    }
  }

  struct Setting {
    const YamlDocument* document;
    YamlNode place;
    std::size_t order;  // later ones win
  };

  /// The last of the texts names the family, or the optimizer, that keys are stored for which
  /// several have.
  void find_first(const Source& source, std::string_view wanted) {
    const YamlNode* node = &source.document.root;
    std::string path = source.key ? source.key->text : "";
    while (node != nullptr && path != wanted) {
      const auto member = std::ranges::find_if(node->members, [&](const YamlMember& inner) {
        const std::string name = path.empty() ? inner.key.text : path + "." + inner.key.text;
        return name == wanted || is_inside(wanted, name);
      });
      const bool is_found = member != node->members.end();
      if (is_found) path += (path.empty() ? "" : ".") + member->key.text;
      node = is_found ? &member->value : nullptr;
    }
    if (node != nullptr) store_value(*find_key(wanted), *node, config_);  // faults: see `set`
  }

  void read(const Source& source) {
    const YamlDocument& document = source.document;
    const YamlNode& root = document.root;
    if (source.key) {
      visit(document, source.key->text, *source.key, root);
    } else if (root.kind == YamlNode::Kind::map) {
      visit_members(document, "", root);
    } else if (root.kind != YamlNode::Kind::null) {
      is_whole_ = false;
      problems_.push_back(
          document.problem_at(root, format("expected sections with keys; got {}", root.described()),
                              "write 'model:' and below it, indented, 'num_layers: 4'"));
    }
  }

  void visit_members(const YamlDocument& document, const std::string& path, const YamlNode& map) {
    for (const YamlMember& member : map.members)
      visit(document, path.empty() ? member.key.text : path + "." + member.key.text, member.key,
            member.value);
  }

  void visit(const YamlDocument& document, const std::string& path, const YamlNode& place,
             const YamlNode& value) {
    const Key* key = find_key(path);
    const auto all = sections();
    const bool is_section = std::find(all.begin(), all.end(), path) != all.end();
    if ((key != nullptr || is_section) && document.has_lines &&
        place.text.find('.') != std::string::npos) {
      // A dot written inside a key of a file would hide two levels in one.
      problems_.push_back(
          document.problem_at(place, format("'{}' holds a dot", place.text), nested_form(path)));
    } else if (key != nullptr) {
      set(document, *key, value);
    } else if (!is_section) {
      const Suggestion meant = suggest(path);
      problems_.push_back(document.problem_at(place, format("unknown key '{}'", path), meant.text));
      wrong_.insert(meant.key);
    } else if (value.kind == YamlNode::Kind::map) {
      visit_members(document, path, value);
    } else if (is_word_of(path, value)) {
      for (const Key& each : keys())
        if (section_of(each.path) == path) set(document, each, value);
    } else if (value.kind != YamlNode::Kind::null || !document.has_lines) {
      problems_.push_back(
          document.problem_at(value, format("'{}' is a section; got {}", path, value.described()),
                              advice_for_section(path, value)));
    }
  }

  static bool is_word_of(const std::string& section, const YamlNode& value) {
    const auto word = word_of_section(section);
    return word && value.kind == YamlNode::Kind::scalar && !value.quoted && value.text == *word;
  }

  static std::string advice_for_section(const std::string& path, const YamlNode& value) {
    const auto colon = value.text.find(':');
    const auto word = word_of_section(path);
    if (value.quoted || colon == value.text.npos)
      return names_in_words(path) + (word ? format("; or write '{}'", *word) : "");
    return format("write '{}: {}', with a space after the ':'", value.text.substr(0, colon),
                  value.text.substr(colon + 1));
  }

  static std::string nested_form(const std::string& path) {
    std::string text = "write ";
    const std::vector<std::string> names = split(path, '.');
    for (std::size_t i = 0; i + 1 < names.size(); ++i)
      text += format("'{}:' and below it, indented, ", names[i]);
    return text + format("'{}: ...'", names.back());
  }

  void set(const YamlDocument& document, const Key& key, const YamlNode& value) {
    Config other;  // takes what is found already
    Config& into = is_first(key.path) ? other : config_;
    if (const auto rejection = store_value(key, value, into)) {
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
    if (!is_whole_ || !sources_.are_whole()) return;
    check_kinds();
    for (const Rule& rule : rules()) {
      const bool is_of_kind =
          (rule.kinds.empty() || std::ranges::count(rule.kinds, config_.kind) > 0) &&
          std::all_of(rule.keys.begin(), rule.keys.end(),
                      [&](const std::string& key) { return applies(*find_key(key), config_); });
      if (!is_of_kind) continue;
      const bool doubtful =
          std::any_of(rule.keys.begin(), rule.keys.end(),
                      [&](const std::string& key) { return wrong_.contains(key); });
      if (doubtful) continue;
      if (const auto finding = rule.check(config_)) {
        problems_.push_back(placed(rule, *finding));
        if (rule.is_of_grid) ++num_of_grid_;
      }
    }
  }

  /// Settings of another kind of model.
  void check_kinds() {
    if (wrong_.contains(kind_key)) return;
    for (const auto& [path, setting] : settings_) {
      const Key& key = *find_key(path);
      if (applies(key, config_) || wrong_.contains(path)) continue;
      problems_.push_back(setting.document->problem_at(
          setting.place,
          format("{} is a setting of {}, but model.kind = {}", path, kind_words(key.kinds),
                 kind_word(config_.kind)),
          format("leave {} out, or set model.kind = {}", path, kind_words(key.kinds))));
      wrong_.insert(path);
    }
  }

  /// As they stand in the files, the files in the order of merging. A base of several files that
  /// is wrong is told once.
  void sort_problems() {
    const auto order = [this](const Diagnostic& problem) {
      const auto& all = sources_.all();
      const auto source = std::find_if(
          all.begin(), all.end(), [&](const Source& s) { return s.document.name == problem.file; });
      return std::tuple(std::distance(all.begin(), source), problem.line, problem.column);
    };
    std::stable_sort(problems_.begin(), problems_.end(),
                     [&](const Diagnostic& a, const Diagnostic& b) { return order(a) < order(b); });
    const auto last = std::unique(problems_.begin(), problems_.end(),
                                  [](const Diagnostic& a, const Diagnostic& b) {
                                    return std::tie(a.file, a.line, a.column, a.message) ==
                                           std::tie(b.file, b.line, b.column, b.message);
                                  });
    problems_.erase(last, problems_.end());
  }

  /// At the value given last among the rule's keys, the one most likely meant to change, with the
  /// places of the others; else at the file.
  Diagnostic placed(const Rule& rule, const Finding& finding) const {
    const Setting* latest = nullptr;
    for (const std::string& key : rule.keys) {
      const auto found = settings_.find(key);
      if (found != settings_.end() && (latest == nullptr || found->second.order > latest->order))
        latest = &found->second;
    }
    Diagnostic problem;
    if (latest != nullptr) {
      problem = latest->document->problem_at(latest->place, finding.message, finding.hint);
    } else {
      const bool has_file = !sources_.all().empty();
      problem.file = has_file ? sources_.all().back().document.name : "configuration";
      problem.message = finding.message;
      problem.hint = finding.hint;
    }
    for (const std::string& key : rule.keys) {
      const auto found = settings_.find(key);
      const bool is_here = found != settings_.end() && &found->second == latest;
      if (!is_here && names_key(finding.message, key))
        problem.notes.push_back(place_in_words(*find_key(key)));
    }
    return problem;
  }

  /// True if the text speaks of the key itself, not of a longer one.
  static bool names_key(std::string_view text, std::string_view key) {
    const auto at = text.find(key);
    if (at == text.npos) return false;
    const auto after = text.substr(at + key.size());
    return after.empty() || after[0] == ' ' || after[0] == ',' || after[0] == ';';
  }

  /// "model.hidden_size is set at a.yaml:2:16".
  std::string place_in_words(const Key& key) const {
    const auto found = settings_.find(key.path);
    if (found == settings_.end())
      return key.derive ? format("{} is not set; it follows: {}", key.path, default_words(key))
                        : format("{} is not set; {} is its default", key.path, key.fallback);
    const Setting& setting = found->second;
    if (!setting.document->has_lines)
      return format("{} is set by {}", key.path, setting.document->name);
    return format("{} is set at {}:{}:{}", key.path, setting.document->name, setting.place.line,
                  setting.place.column);
  }

  std::string origin_of(const Key& key) const {
    const auto found = settings_.find(key.path);
    if (found == settings_.end()) return key.derived_words.empty() ? "default" : "derived";
    const Setting& setting = found->second;
    const YamlDocument& document = *setting.document;
    if (!document.has_lines) return document.name;
    return format("{}:{}", document.name, setting.place.line);
  }

  const Sources& sources_;
  Config config_;
  std::vector<Diagnostic> problems_;
  std::map<std::string, Setting> settings_;
  std::size_t settings_made_ = 0;
  std::set<std::string> wrong_;  // keys that got a bad value, or a misspelt name
  std::size_t num_of_grid_ = 0;  // of the problems
  bool is_whole_ = true;         // false: a file holds no keys at all
};

/// Without a folder and an ending: "gpt-tiny".
std::string run_name_of(std::span<const std::string> files) {
  return files.empty() ? kind_word(model::Kind())
                       : std::filesystem::path(files.back()).stem().string();
}

}  // namespace

Config load(std::span<const std::string> files, std::span<const std::string> sets,
            const FileReader& read) {
  const auto from_disk = [](const std::string& path) { return read_small_file(path, most_bytes); };
  Sources sources(read ? read : FileReader(from_disk));
  for (const std::string& file : files) sources.add_file(file);
  for (std::size_t i = 0; i < sets.size(); ++i) sources.add_set(sets[i], i + 1);
  return Loader(sources).finish(run_name_of(files));
}

Config load_yaml(const std::string& yaml, const std::string& name) {
  return load(std::span(&name, 1), {}, [&](const std::string&) { return yaml; });
}

Config stored(const std::string& yaml) {
  return load_yaml(yaml, "the checkpoint's configuration");
}

}  // namespace fourfold::config
