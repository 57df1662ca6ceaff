#include "plan/pin_spec.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/format.h"
#include "base/text.h"

namespace fourfold::plan {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// "64 (y,z)".
std::optional<PinnedDim> parse_dim(std::string_view text) {
  PinnedDim dim;
  const auto open = text.find('(');
  const std::string_view size = trimmed(text.substr(0, open));
  if (size != "*") {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), number);
    if (error != std::errc() || end != size.data() + size.size() || number < 1) return std::nullopt;
    dim.size = number;
  }
  if (open == text.npos) return dim;
  const std::string_view cuts = trimmed(text.substr(open + 1));
  if (!cuts.ends_with(')')) return std::nullopt;
  for (const std::string& axis : split(std::string(cuts.substr(0, cuts.size() - 1)), ','))
    dim.axes.emplace_back(trimmed(axis));
  return dim;
}

}  // namespace

std::vector<std::string> split_clauses(std::string_view text) {
  std::vector<std::string> clauses(1);
  bool is_inside = false;
  for (const char letter : text) {
    if (letter == '(') is_inside = true;
    if (letter == ')') is_inside = false;
    if (letter == ',' && !is_inside)
      clauses.emplace_back();
    else
      clauses.back() += letter;
  }
  return clauses;
}

std::optional<std::vector<PinnedDim>> parse_pinned(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || !text.starts_with('[') || !text.ends_with(']')) return std::nullopt;
  std::vector<PinnedDim> dims;
  std::vector<std::string> seen;
  for (const std::string& word : split_clauses(text.substr(1, text.size() - 2))) {
    const auto dim = parse_dim(trimmed(word));
    if (!dim) return std::nullopt;
    for (const std::string& axis : dim->axes) {
      const bool is_axis = axis == "x" || axis == "y" || axis == "z" || axis == "data";
      if (!is_axis || std::ranges::find(seen, axis) != seen.end()) return std::nullopt;
      seen.push_back(axis);
    }
    dims.push_back(*dim);
  }
  return dims;
}

std::string to_string(const std::vector<PinnedDim>& dims) {
  std::vector<std::string> words;
  for (const PinnedDim& dim : dims) {
    std::string& word = words.emplace_back(dim.size ? format("{}", *dim.size) : "*");
    if (!dim.axes.empty()) word += format(" ({})", join(dim.axes, ","));
  }
  return format("[{}]", join(words, ", "));
}

namespace {

constexpr std::string_view never_whole = "never whole";

}  // namespace

std::optional<Pin> parse_pin(const std::string& pattern, std::string_view text) {
  if (trimmed(text) == never_whole) return Pin{pattern, {}, true};
  auto dims = parse_pinned(text);
  if (!dims) return std::nullopt;
  return Pin{pattern, std::move(*dims)};
}

std::string to_string(const Pin& pin) {
  return pin.is_never_whole ? std::string(never_whole) : to_string(pin.dims);
}

bool matches(std::string_view pattern, std::string_view name) {
  // A '*' takes as little as will do; where the rest does not fit, the last one takes more.
  std::size_t p = 0, n = 0, after_star = pattern.npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (after_star != pattern.npos) {
      p = after_star;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace fourfold::plan
