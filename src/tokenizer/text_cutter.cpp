#include "tokenizer/text_cutter.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "tokenizer/gpt2_chunks.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

using What = CutStep::What;
using Keep = CutStep::Keep;

/// A stretch of text, and whether it is a match.
struct Stretch {
  std::size_t begin = 0, end = 0;
  bool is_match = false;
};

/// Calls visit(stretch) for all of the text: matches, and what lies between them.
template <class Visit>
void for_each_number(std::string_view text, Visit&& visit) {
  std::size_t done = 0;
  const auto& classes = character_classes();
  for (std::size_t at = 0; at < text.size();) {
    const auto found = first_code_point(text.substr(at));
    const std::size_t size = found ? found->num_bytes : 1;
    if (found && classes[found->value] == CharacterClass::number) {
      if (done < at) visit(Stretch{done, at, false});
      visit(Stretch{at, at + size, true});
      done = at + size;
    }
    at += size;
  }
  if (done < text.size()) visit(Stretch{done, text.size(), false});
}

template <class Visit>
void for_each_literal(std::string_view text, std::string_view wanted, Visit&& visit) {
  std::size_t done = 0;
  for (std::size_t at = 0; (at = text.find(wanted, done)) != text.npos;) {
    if (done < at) visit(Stretch{done, at, false});
    done = at + wanted.size();
    visit(Stretch{at, done, true});
  }
  if (done < text.size()) visit(Stretch{done, text.size(), false});
}

[[noreturn]] void fail_too_long(const CutStep& step, std::string_view source) {
  throw UserError(
      ExitCode::bad_data,
      format("{}: the tokenizer's expression {} takes more than {} steps to find one word; leave "
             "the text out, or use a tokenizer with a simpler expression",
             source, json_quoted(step.text), format_grouped(Pattern::most_steps)));
}

/// As the crate onig walks from match to match: an empty match where the one before it ended does
/// not count.
template <class Visit>
void for_each_in_text(std::string_view text, std::size_t offset, const CutStep& step,
                      std::string_view source, Visit&& visit) {
  std::size_t from = 0, done = 0;
  std::optional<std::size_t> last_end;
  while (from <= text.size()) {
    const Pattern::Found found = step.pattern->find(text, from);
    if (found.kind == Pattern::Found::Kind::too_long) fail_too_long(step, source);
    if (found.kind != Pattern::Found::Kind::match) break;
    if (found.begin == found.end && last_end == found.end) {
      const auto next = first_code_point(text.substr(from));
      from += next ? next->num_bytes : 1;
      continue;
    }
    if (done < found.begin) visit(Stretch{offset + done, offset + found.begin, false});
    visit(Stretch{offset + found.begin, offset + found.end, true});
    from = done = found.end;
    last_end = found.end;
  }
  if (done < text.size()) visit(Stretch{offset + done, offset + text.size(), false});
}

/// Well-formed stretches one by one, and the bytes between them.
template <class Visit>
void for_each_match(std::string_view text, const CutStep& step, std::string_view source,
                    Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t good = well_formed_prefix(text.substr(at));
    if (good > 0) for_each_in_text(text.substr(at, good), at, step, source, visit);
    std::size_t end = at + good;
    while (end < text.size() && !first_code_point(text.substr(end))) ++end;
    if (end > at + good) visit(Stretch{at + good, end, false});
    at = end;
  }
}

/// Hands stretches on as `keep` says, those without a byte left out.
template <class Emit>
class Keeper {
 public:
  Keeper(const CutStep& step, Emit& emit)
      : keep_(step.keep), is_inverted_(step.is_inverted), emit_(emit) {}

  void take(Stretch next) {
    if (is_inverted_) next.is_match = !next.is_match;
    switch (keep_) {
      case Keep::apart:
        return put(next);
      case Keep::removed:
        if (!next.is_match) put(next);
        return;
      case Keep::together:
        return hold(next, held_ && held_->is_match == next.is_match);
      case Keep::with_previous:
        return hold(next, held_ && next.is_match && !was_match_);
      case Keep::with_next:
        return hold(next, held_ && was_match_ && !next.is_match);
    }
  }
  void finish() {
    if (held_) put(*held_);
  }

 private:
  /// Joins it with the one that is held, or hands that one on and holds it instead.
  void hold(Stretch next, bool joins) {
    was_match_ = next.is_match;
    if (joins) {
      held_->end = next.end;
      return;
    }
    finish();
    held_ = next;
  }
  void put(const Stretch& stretch) {
    if (stretch.begin < stretch.end) emit_(stretch.begin, stretch.end);
  }

  Keep keep_;
  bool is_inverted_;
  Emit& emit_;
  std::optional<Stretch> held_;
  bool was_match_ = false;
};

}  // namespace

struct TextCutter::Run {
  const std::vector<CutStep>& steps;
  std::string_view source;
  WordSink& sink;

  void from(std::size_t number, std::string_view text, Place place) {
    if (number == steps.size()) return sink.take(text);
    const CutStep& step = steps[number];
    const auto next = [&](std::size_t begin, std::size_t end) {
      from(number + 1, text.substr(begin, end - begin), begin == 0 ? place : Place::within);
    };
    switch (step.what) {
      case What::gpt2_words:
        for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
          size = first_gpt2_chunk(text.substr(at));
          next(at, at + size);
        }
        return;
      case What::gpt4_words:
        for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
          size = first_gpt4_chunk(text.substr(at), step.most_digits);
          next(at, at + size);
        }
        return;
      case What::numbers:
        return keep(step, next, [&](auto&& visit) { for_each_number(text, visit); });
      case What::literal:
        return keep(step, next, [&](auto&& visit) { for_each_literal(text, step.text, visit); });
      case What::expression:
        return keep(step, next, [&](auto&& visit) { for_each_match(text, step, source, visit); });
      case What::spaces_to_symbols:
        return from(number + 1, with_symbols(text), place);
      case What::space_before:
      case What::symbol_before:
      case What::symbol_at_begin:
        return prefix(number, text, place);
    }
  }

  template <class Next, class ForEach>
  static void keep(const CutStep& step, Next& next, ForEach&& for_each) {
    Keeper<Next> keeper(step, next);
    for_each([&](const Stretch& stretch) { keeper.take(stretch); });
    keeper.finish();
  }

  void prefix(std::size_t number, std::string_view text, Place place) {
    const CutStep& step = steps[number];
    const std::string_view wanted = step.what == What::space_before ? " " : space_symbol;
    const bool may =
        step.what == What::symbol_at_begin ? place == Place::begin : place != Place::goes_on;
    if (!may || text.starts_with(wanted)) return from(number + 1, text, place);
    std::string longer(wanted);
    longer += text;
    from(number + 1, longer, place);
  }

  static std::string with_symbols(std::string_view text) {
    std::string result;
    result.reserve(text.size() + text.size() / 2);
    for (const char byte : text)
      if (byte == ' ')
        result += space_symbol;
      else
        result += byte;
    return result;
  }
};

void TextCutter::cut(std::string_view text, Place place, std::string_view source,
                     WordSink& sink) const {
  Run{steps_, source, sink}.from(0, text, place);
}

bool TextCutter::parts_letters_from_spaces() const {
  const auto has_words = [](const CutStep& step) {
    return step.what == What::gpt2_words || step.what == What::gpt4_words;
  };
  const auto leaves_them = [](const CutStep& step) {
    return step.what == What::numbers || step.what == What::space_before;
  };
  return std::ranges::any_of(steps_, has_words) &&
         std::ranges::all_of(
             steps_, [&](const CutStep& step) { return has_words(step) || leaves_them(step); });
}

std::size_t TextCutter::last_sure_cut(std::string_view text) const {
  if (steps_.empty() || steps_[0].what != What::expression || steps_[0].keep != Keep::apart ||
      steps_[0].pattern->looks_back())
    return 0;
  const Pattern& pattern = *steps_[0].pattern;
  text = text.substr(0, well_formed_prefix(text));
  std::vector<Pattern::Found> matches;  // whatever follows
  for (std::size_t from = 0; from < text.size(); from = matches.back().end) {
    const Pattern::Found found = pattern.find_whatever_follows(text, from);
    if (found.kind != Pattern::Found::Kind::match || found.end <= from) break;
    matches.push_back(found);
  }
  // What stands before the cut must have them too where it ends there.
  const auto has = [&](std::string_view part, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i <= last; ++i) {
      const Pattern::Found found = pattern.find(part, i == 0 ? 0 : matches[i - 1].end);
      if (found.begin != matches[i].begin || found.end != matches[i].end) return false;
    }
    return true;
  };
  constexpr std::size_t most_tries = 16;
  for (std::size_t tries = 0; tries < most_tries && tries < matches.size(); ++tries) {
    const std::size_t last = matches.size() - 1 - tries, cut = matches[last].end;
    const std::string_view part = text.substr(0, cut);
    if (cut < text.size() && has(part, last, last) && has(part, 0, last)) return cut;
  }
  return 0;
}

}  // namespace fourfold::tokenizer
