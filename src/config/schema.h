// The one table of keys: path, type, bounds, default, unit, meaning, cost, names in other tools, an
// example, and where the value is stored. Parsing, defaults, help, resolved YAML, JSON Schema,
// `config new` and configs/KEYS.md are all made from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace fourfold::config {

/// The largest job that a configuration may describe.
inline constexpr std::int64_t most_ranks = 65'536;

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

/// A list of all these names, in any order.
struct Permutation {
  Place<std::vector<std::string>> place;
  std::vector<std::string> names;
};

/// A list of whole numbers, of a given length where there is one. `zero` is how 0 is written;
/// empty: 0 is none of them.
struct Integers {
  Place<std::vector<std::int64_t>> place;
  std::string zero = {};
  std::size_t most_items = 1000;
};

/// A whole number that may be a word. A size is bytes, written with a unit.
struct Amount {
  std::function<std::optional<std::int64_t>(Config&)> get;
  std::function<void(Config&, std::optional<std::int64_t>)> set;
  std::string zero = {};  // how 0 is written; empty: as a number
  std::string open = {};  // how no number is written
  bool is_size = false;
};

using Blend = std::vector<data::BlendPart>;
using Pins = std::vector<plan::Pin>;

/// A list of grids: {x: 2, data: 1}, an axis that is left out being 1.
using Grids = std::vector<plan::Grid>;

/// A key's type is the kind of its place. An optional number is written `auto` where it is open.
using Field = std::variant<Place<bool>, Place<int>, Place<std::int64_t>, Place<std::uint64_t>,
                           Place<std::optional<std::int64_t>>, Place<double>, Place<std::string>,
                           Choice, Pair, Permutation, Place<plan::Checkpointing>, Place<Blend>,
                           Integers, Place<std::vector<double>>, Place<data::BadPictures>, Amount,
                           Place<Grids>, Place<pipeline::WeightDelay>, Place<Pins>>;

struct Bounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_excluded = false;
  bool most_excluded = false;
  bool contains(double value) const;
};

/// How a key may differ from that of the checkpoint which a run continues.
enum class ResumeClass {
  free,         // where and how it runs, how long, what it tells
  overridable,  // changes what is learned: only when the user says so
  fixed         // the checkpoint would not fit
};

struct Key {
  std::string path;     // "model.num_layers"
  std::string meaning;  // one sentence
  Field field;
  std::string fallback;  // the default as YAML; empty: see `derive`
  Bounds bounds = {};
  std::string unit = {};
  std::string cost = {};     // what a larger value costs in time, memory or traffic; empty: nothing
  std::string example = {};  // as YAML; empty: the default
  std::vector<std::string> elsewhere =
      {};  // names in other tools, and other wrong names; "eval.interval": only in eval
  /// A default that follows from other keys, in words, and the function that sets it once they are
  /// stored.
  std::string derived_words = {};
  std::function<void(Config&)> derive = {};
  /// The kinds of models that it is a setting of; none: of any.
  std::vector<model::Kind> kinds = {};
  /// None: that of its section (resume_class.cpp).
  std::optional<ResumeClass> on_resume = {};
};

/// True if the key is a setting of the configured kind of model.
inline bool applies(const Key& key, const Config& config) {
  return key.kinds.empty() || std::ranges::find(key.kinds, config.kind) != key.kinds.end();
}

/// In the order in which they are documented and printed; the keys of a section stand together.
std::span<const Key> keys();
/// nullptr when there is none.
const Key* find_key(std::string_view path);
/// "model", "parallel", "parallel.tensor" and so on, outer ones first; without the empty one of
/// top-level keys.
std::vector<std::string> sections();
/// The word that a section takes in place of its keys, and that each of them then has; none for
/// most: "auto" of "parallel.tensor".
std::optional<std::string> word_of_section(std::string_view path);
/// "model" of "model.num_layers"; empty for a top-level key or section.
std::string_view section_of(std::string_view path);
/// "num_layers" of "model.num_layers".
std::string_view leaf_of(std::string_view path);
/// True if a key or section lies in a section, directly or deeper; everything lies in "".
bool is_inside(std::string_view path, std::string_view section);
/// "whole number from 1 to 1000", "true or false", "one of text, synthetic".
std::string type_words(const Key& key);
/// The words that a key takes: those of a choice, true and false; none of numbers and texts.
std::vector<std::string> value_words(const Key& key);
/// "4", "4 * model.hidden_size".
std::string default_words(const Key& key);

}  // namespace fourfold::config
