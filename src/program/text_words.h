// Words and numbers of a line of program text, and the errors about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fourfold::program {

/// Throws UserError (bad_config): "read 'WORD', expected EXPECTED".
[[noreturn]] void fail_text(std::string_view read, std::string_view expected);

/// Letters, digits and _.#/-, the first a letter, digit or _.
bool is_name(std::string_view text);

/// The whole of `text` as a decimal number; `expected` says what it stands for.
std::int64_t parse_number(std::string_view text, std::string_view expected);
/// As parse_number, for an index or id below `end`.
std::size_t parse_index(std::string_view text, std::size_t end, std::string_view expected);

/// The words of one line, separated by spaces.
class Words {
 public:
  explicit Words(std::string_view line);

  bool done() const { return rest_.empty(); }
  /// The next word, without taking it; empty at the end.
  std::string_view peek() const;
  std::string_view next(std::string_view expected);
  /// Takes the next word if it is `word`.
  bool accept(std::string_view word);
  void expect(std::string_view word);
  std::string_view name(std::string_view expected);
  std::int64_t number(std::string_view expected);
  /// "[...]" with its brackets.
  std::string_view bracketed(std::string_view expected);
  /// All that is left; nothing is left afterwards.
  std::string_view take_rest();
  void finish() const;

 private:
  void skip(std::size_t count);
  std::string_view rest_;
};

/// The lines of a text without comments and blank lines, and where the reader is.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  /// The next line with content, without taking it; empty at the end of the text.
  std::string_view peek();
  std::string_view next(std::string_view expected);
  /// Number of the line that was last looked at, counted from 1.
  std::size_t number() const { return number_; }

 private:
  std::string_view rest_, line_;
  std::size_t number_ = 0;
};

}  // namespace fourfold::program
