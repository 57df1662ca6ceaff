// The one table of keys: path, type, bounds, default, unit, meaning, names in other tools, and
// where the value is stored. Parsing, defaults, help, resolved YAML and configs/README.md are all
// made from it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace fourfold::config {

/// Finds a value in a Config.
template <class T>
using Place = std::function<T&(Config&)>;

/// One of several words.
struct Choice {
  std::vector<std::string> names;
  std::function<std::size_t(Config&)> get;  // index into names
  std::function<void(Config&, std::size_t)> set;
};

/// A list of two numbers.
struct Pair {
  Place<double> first, second;
};

/// A key's type is the kind of its place.
using Field =
    std::variant<Place<bool>, Place<int>, Place<std::int64_t>, Place<std::uint64_t>, Place<double>,
                 Place<std::string>, Choice, Pair, Place<plan::Checkpointing>>;

struct Bounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_excluded = false;
  bool most_excluded = false;
  bool contains(double value) const;
};

struct Key {
  std::string path;     // "model.num_layers"
  std::string meaning;  // one sentence
  Field field;
  std::string fallback;  // the default as YAML; empty: see `derive`
  Bounds bounds = {};
  std::string unit = {};
  std::vector<std::string> elsewhere =
      {};  // names in other tools, and other wrong names; "eval.interval": only in eval
  /// A default that follows from other keys, in words, and the function that sets it once they are
  /// stored.
  std::string derived_words = {};
  std::function<void(Config&)> derive = {};
};

/// In the order in which they are documented and printed; the keys of a section stand together.
std::span<const Key> keys();
/// nullptr when there is none.
const Key* find_key(std::string_view path);
/// "model" and so on; without the empty one of top-level keys.
std::vector<std::string> sections();
/// "model" of "model.num_layers"; empty for a top-level key.
std::string_view section_of(std::string_view path);
/// "num_layers" of "model.num_layers".
std::string_view leaf_of(std::string_view path);
/// "whole number from 1 to 1000", "true or false", "one of text, synthetic".
std::string type_words(const Key& key);
/// "4", "4 * model.hidden_size".
std::string default_words(const Key& key);

}  // namespace fourfold::config
