// The texts that a configuration is made of: files, those they extend, and --set. Not what their
// keys mean (load.cpp).
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml.h"
#include "config/config.h"

namespace fourfold::config {

/// A file's first word on another file that it changes: `extends: base.yaml`.
inline constexpr std::string_view extends_key = "extends";

struct Source {
  YamlDocument document;
  /// The key of a --set, before '=', where the document's root belongs.
  std::optional<YamlNode> key = {};
};

class Sources {
 public:
  explicit Sources(FileReader read) : read_(std::move(read)) {}

  /// Adds what the file extends, then the file. Paths are relative to the file that names them.
  void add_file(const std::string& path);
  /// The `number`th --set, from 1.
  void add_set(const std::string& text, std::size_t number);

  /// In the order in which they are merged: later values win.
  const std::list<Source>& all() const { return all_; }
  const std::vector<Diagnostic>& problems() const { return problems_; }
  /// False when a part of a text could not be read: keys may then be missing for this reason.
  bool are_whole() const { return are_whole_; }

 private:
  struct Extends {
    std::string path;  // of the base
    Diagnostic place;  // without a message
  };

  void add(const std::string& path, const std::optional<Diagnostic>& named_at);
  std::optional<Extends> take_extends(YamlDocument& document, const std::string& path);
  void refuse(Diagnostic problem, std::string message, std::string hint);

  FileReader read_;
  std::list<Source> all_;
  std::vector<std::string> open_;  // files that wait for what they extend, outermost first
  std::vector<Diagnostic> problems_;
  bool are_whole_ = true;
};

}  // namespace fourfold::config
