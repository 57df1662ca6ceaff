#include "config/schema.h"

#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "config/number.h"

namespace fourfold::config {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// "from 1 to 1000", "above 0", "at least 0 and below 1"; empty without bounds.
std::string bounds_words(const Bounds& bounds) {
  const auto number = [](double value) { return format_number(value); };
  const bool has_least = bounds.least != -infinity, has_most = bounds.most != infinity;
  if (has_least && has_most && !bounds.least_excluded && !bounds.most_excluded)
    return format("from {} to {}", number(bounds.least), number(bounds.most));
  std::string words;
  if (has_least) words = (bounds.least_excluded ? "above " : "at least ") + number(bounds.least);
  if (has_least && has_most) words += " and ";
  if (has_most) words += (bounds.most_excluded ? "below " : "at most ") + number(bounds.most);
  return words;
}

struct TypeWords {
  std::string bounds;
  std::string operator()(const Place<bool>&) const { return "true or false"; }
  std::string operator()(const Place<int>&) const { return "whole number " + bounds; }
  std::string operator()(const Place<std::int64_t>&) const { return "whole number " + bounds; }
  std::string operator()(const Place<std::uint64_t>&) const { return "whole number " + bounds; }
  std::string operator()(const Place<std::optional<std::int64_t>>&) const {
    return format("whole number {}, or auto", bounds);
  }
  std::string operator()(const Place<double>&) const { return "number " + bounds; }
  std::string operator()(const Place<std::string>&) const { return "text"; }
  std::string operator()(const Pair&) const { return "list of two numbers " + bounds; }
  std::string operator()(const Permutation& words) const {
    return format("list of {} in any order", in_words(words.names, " and "));
  }
  std::string operator()(const Place<plan::Checkpointing>&) const {
    return "none, selective, full, 'every N' or auto";
  }
  std::string operator()(const Place<Blend>&) const {
    return "list of {path: text, weight: number above 0}";
  }
  std::string operator()(const Place<pipeline::WeightDelay>&) const {
    return "none, auto or a whole number, at least 0";
  }
  std::string operator()(const Place<Grids>&) const {
    return "list of {x, y, z, data: whole numbers " + bounds + "}";
  }
  std::string operator()(const Choice& words) const { return in_words(words.names, " or "); }
  std::string operator()(const Integers& list) const {
    return format("list of whole numbers {}{}", bounds,
                  list.zero.empty() ? "" : format(", or {}", list.zero));
  }
  std::string operator()(const Place<std::vector<double>>&) const {
    return "list of numbers " + bounds;
  }
  std::string operator()(const Place<data::BadPictures>&) const { return "stop or skip:N"; }
  std::string operator()(const Place<Pins>&) const {
    return "{pattern of names: \"sharding\" or never whole}, axes x, y, z and data, each once";
  }
  std::string operator()(const Amount& amount) const {
    std::string text = amount.is_size ? "size in bytes, as 64MiB" : "whole number " + bounds;
    if (!amount.zero.empty()) text += format(", {}", amount.zero);
    if (!amount.open.empty()) text += format(" or {}", amount.open);
    return text;
  }

 private:
  /// "a, b or c".
  static std::string in_words(const std::vector<std::string>& names, std::string_view last) {
    std::string result;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0) result += i + 1 == names.size() ? last : ", ";
      result += names[i];
    }
    return result;
  }
};

}  // namespace

bool Bounds::contains(double value) const {
  return (least_excluded ? value > least : value >= least) &&
         (most_excluded ? value < most : value <= most);
}

const Key* find_key(std::string_view path) {
  const auto table = keys();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Key& key) { return key.path == path; });
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::string> sections() {
  std::vector<std::string> result;
  for (const Key& key : keys())
    for (auto dot = key.path.find('.'); dot != key.path.npos; dot = key.path.find('.', dot + 1)) {
      std::string section = key.path.substr(0, dot);
      if (std::find(result.begin(), result.end(), section) == result.end())
        result.push_back(std::move(section));
    }
  return result;
}

std::optional<std::string> word_of_section(std::string_view path) {
  if (path == "parallel.tensor") return "auto";
  return std::nullopt;
}

std::string_view section_of(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == path.npos ? std::string_view() : path.substr(0, dot);
}

std::string_view leaf_of(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == path.npos ? path : path.substr(dot + 1);
}

bool is_inside(std::string_view path, std::string_view section) {
  return section.empty() ||
         (path.size() > section.size() && path.starts_with(section) && path[section.size()] == '.');
}

std::string type_words(const Key& key) {
  return std::visit(TypeWords{bounds_words(key.bounds)}, key.field);
}

std::vector<std::string> value_words(const Key& key) {
  if (const auto* choice = std::get_if<Choice>(&key.field)) return choice->names;
  if (std::holds_alternative<Place<bool>>(key.field)) return {"true", "false"};
  return {};
}

std::string default_words(const Key& key) {
  return key.derived_words.empty() ? key.fallback : key.derived_words;
}

}  // namespace fourfold::config
