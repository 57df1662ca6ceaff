// A strict reader of YAML: block and flow maps and lists of scalars, with places. Not the whole of
// YAML: anchors, aliases, tags, merge keys, several documents, tabs as indentation and duplicate
// keys are problems.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace fourfold {

struct YamlMember;

/// Scalars stay text: what "8" or "yes" means is for the reader of the key to say.
struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;                  // of a scalar
  bool quoted = false;               // '8', "8" or a block scalar, not 8
  std::size_t line = 0, column = 0;  // from 1
  std::vector<YamlNode> items;       // of a list
  std::vector<YamlMember> members;   // of a map, in the order written; keys differ

  /// "'8'", "a list", "a map", "nothing": for messages.
  std::string described() const;
};

struct YamlMember {
  YamlNode key;  // a scalar
  YamlNode value;
};

struct YamlDocument {
  std::string name;  // of the file, or "--set #2"
  std::string text;
  bool has_lines = true;  // false: problems name no line
  YamlNode root;

  /// A problem at a node of this document.
  Diagnostic problem_at(const YamlNode& node, std::string message, std::string hint = {}) const;
};

/// Largest input: 1 MiB, 32 levels, 10^4 nodes. Whatever is wrong is added to `problems`; the root
/// is then what could be read, or null.
YamlDocument parse_yaml(std::string text, std::string name, std::vector<Diagnostic>& problems);

/// A value that begins at `value_begin` of one line, such as "a.b=[1, 2]": places count from the
/// line's beginning.
YamlDocument parse_yaml_value(std::string line, std::size_t value_begin, std::string name,
                              std::vector<Diagnostic>& problems);

/// The text between double quotes, escaped so that it reads back to the same bytes (of valid
/// UTF-8).
std::string yaml_quoted(std::string_view text);

}  // namespace fourfold
