// How the user has parameters and activations lie: a pattern of their names, and a sharding in the
// notation that programs print. Not what it means for a model (pins.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::plan {

struct PinnedDim {
  std::optional<std::int64_t> size;  // none: written '*', any
  std::vector<std::string> axes;     // that cut it, outermost first
  bool operator==(const PinnedDim&) const = default;
};

struct Pin {
  std::string pattern;  // of names; '*' is any run of letters
  std::vector<PinnedDim> dims;
  bool is_never_whole = false;  // no sharding: any but that in which every rank has all of it
  bool operator==(const Pin&) const = default;
};

/// "[64 (y,z), *, 192 (x)]", of a parameter between steps. Nothing where the text is malformed or
/// names an axis that a grid has not, or one twice.
std::optional<std::vector<PinnedDim>> parse_pinned(std::string_view text);
std::string to_string(const std::vector<PinnedDim>& dims);

/// The same, or "never whole".
std::optional<Pin> parse_pin(const std::string& pattern, std::string_view text);
/// Without the pattern.
std::string to_string(const Pin& pin);

/// The texts between commas that stand outside of parentheses.
std::vector<std::string> split_clauses(std::string_view text);

/// True if the pattern is one of the name.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace fourfold::plan
