// What a reader of a folder, a file or a set does without: how many, the first of them, and why.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::data {

/// Nothing that a user named is left out without being counted here.
struct LeftOut {
  static constexpr std::size_t most_named = 8;
  std::int64_t count = 0;
  /// The first of them, at most 8, as "cats/03.png: is 8x8x3, expected 16x16x3".
  std::vector<std::string> first;
  bool operator==(const LeftOut&) const = default;

  void add(std::string_view name, std::string_view why);
  /// Adds what another one has after the own.
  void add(const LeftOut& others);
  /// The same with the name of a folder before each name.
  void add_within(std::string_view folder, const LeftOut& others);
  /// "2 files passed over: a: is a pipe; b: is hidden"; empty for none. `noun` is in the singular,
  /// `what` says what became of them.
  std::string text(std::string_view noun, std::string_view what) const;
};

}  // namespace fourfold::data
