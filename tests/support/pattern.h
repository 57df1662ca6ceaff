// Regular expressions for tests, in the grammar of ECMAScript. std::regex is compiled in
// pattern.cpp alone: its templates cost each file that uses them more than a second of the
// compiler's time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fourfold::test {

/// A match: the whole of it, then its groups; one that took no part is empty.
using Match = std::vector<std::string>;

class Pattern {
 public:
  explicit Pattern(const std::string& expression);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  /// The text as a whole is as the pattern says.
  bool matches(const std::string& text) const;
  /// Some of the text is as the pattern says.
  bool is_in(const std::string& text) const { return first_in(text).has_value(); }
  std::optional<Match> first_in(const std::string& text) const;
  /// All matches from the first on; none overlaps another.
  std::vector<Match> all_in(const std::string& text) const;
  /// The text with `by` in the place of each match; $1 in it is the first group.
  std::string replaced_in(const std::string& text, const std::string& by) const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace fourfold::test
