// How a text is cut into words before the tokens of each are looked for: the pre-tokenizers of
// tokenizer.json. No token reaches over a cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/pattern.h"

namespace fourfold::tokenizer {

/// One step, which works on each word that the step before has cut.
struct CutStep {
  enum class What : std::uint8_t {
    gpt2_words,         // as gpt2_chunks.h cuts
    gpt4_words,         // as that cuts with `most_digits`
    numbers,            // each character that is one
    expression,         // what `pattern` finds
    literal,            // where `text` stands
    space_before,       // nothing is cut; a word that does not begin with a space gets one
    spaces_to_symbols,  // nothing is cut; spaces become U+2581
    symbol_before,      // nothing is cut; a word that does not begin with U+2581 gets one
    symbol_at_begin     // the same for the word by which a text begins
  };
  /// What becomes of a match, where `what` finds some.
  enum class Keep : std::uint8_t { apart, removed, with_previous, with_next, together };

  What what = What::gpt2_words;
  Keep keep = Keep::apart;
  bool is_inverted = false;  // what lies between the matches counts as the matches
  int most_digits = 3;       // of a number in one word
  std::string text;          // of a literal; an expression as the file writes it, for messages
  std::unique_ptr<const Pattern> pattern;
};

/// Where a piece of text stands.
enum class Place : std::uint8_t {
  begin,    // of a text
  goes_on,  // after a cut in the middle of a document
  within    // after a token that the text spelled
};

/// Takes words in their order.
class WordSink {
 public:
  virtual ~WordSink() = default;
  virtual void take(std::string_view word) = 0;
};

class TextCutter {
 public:
  explicit TextCutter(std::vector<CutStep> steps) : steps_(std::move(steps)) {}

  /// `source` names the text in messages. A byte that is not UTF-8 is in no match of an expression.
  /// Errors: UserError(bad_data) where an expression takes too many steps.
  void cut(std::string_view text, Place place, std::string_view source, WordSink& sink) const;

  const std::vector<CutStep>& steps() const { return steps_; }
  /// True if a letter and white space after it are never in one word, whatever stands around them.
  bool parts_letters_from_spaces() const;
  /// A place above 0 that is a cut whatever follows, and that leaves the words before it as they
  /// are where the text ends there: one of the last that the first step knows; else 0. Cost: the
  /// text is searched twice.
  std::size_t last_sure_cut(std::string_view text) const;

 private:
  struct Run;
  std::vector<CutStep> steps_;
};

}  // namespace fourfold::tokenizer
