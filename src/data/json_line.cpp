#include "data/json_line.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"

namespace fourfold::data {
namespace {

constexpr std::string_view blanks = " \t\r\n";

/// Walks over values, one after another.
class Walk {
 public:
  using State = JsonEnd::State;
  Walk(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  std::size_t at() const { return at_; }

  State value(int depth = 0) {
    constexpr int deepest = 256;
    if (depth > deepest) return State::no_json;
    if (is_at_end()) return State::cut_off;
    if (text_[at_] == '"') return string();
    if (text_[at_] == '{') return list('}', depth, true);
    if (text_[at_] == '[') return list(']', depth, false);
    return word();
  }

  State string() {
    if (is_at_end()) return State::cut_off;
    if (text_[at_] != '"') return State::no_json;
    for (++at_; !is_at_end(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return State::whole;
      } else if (text_[at_] == '\n') {
        return State::no_json;
      }
    }
    return State::cut_off;
  }

  /// Blanks, then this letter.
  State letter(char wanted) {
    at_ = skip_blanks(text_, at_);
    if (is_at_end()) return State::cut_off;
    if (text_[at_] != wanted) return State::no_json;
    ++at_;
    return State::whole;
  }

  bool is_at_end() const { return at_ >= text_.size(); }
  char next() {
    at_ = skip_blanks(text_, at_);
    return is_at_end() ? '\0' : text_[at_];
  }

 private:
  /// An object or an array, from its opening letter on.
  State list(char closing, int depth, bool has_keys) {
    ++at_;
    if (next() == closing) {
      ++at_;
      return State::whole;
    }
    while (true) {
      if (is_at_end()) return State::cut_off;
      if (has_keys) {
        if (const State key = string(); key != State::whole) return key;
        if (const State colon = letter(':'); colon != State::whole) return colon;
        next();
      }
      if (const State item = value(depth + 1); item != State::whole) return item;
      const char after = next();
      if (is_at_end()) return State::cut_off;
      ++at_;
      if (after == closing) return State::whole;
      if (after != ',') return State::no_json;
      next();
    }
  }

  /// A number, true, false, null, or what Python writes of numbers that JSON lacks.
  State word() {
    const std::size_t end = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    if (end == text_.size()) return State::cut_off;
    for (const std::string_view known : {"true", "false", "null", "NaN", "Infinity", "-Infinity"})
      if (word == known) {
        at_ = end;
        return State::whole;
      }
    const bool is_number = !word.empty() && word.find_first_of("0123456789") != word.npos &&
                           word.find_first_not_of("0123456789+-.eE") == word.npos;
    if (!is_number) return State::no_json;
    at_ = end;
    return State::whole;
  }

  std::string_view text_;
  std::size_t at_;
};

bool is_key(std::string_view quoted, std::string_view field) {
  if (quoted.find('\\') == quoted.npos) return quoted.substr(1, quoted.size() - 2) == field;
  try {
    return parse_json(quoted, "").as_string() == field;
  } catch (const UserError&) {
    return false;
  }
}

/// The text in a member of a line that is no strict JSON because of what stands in others; nothing
/// where that is not all that is wrong.
std::optional<std::string> text_among_others(std::string_view line, std::string_view field) {
  Walk walk(line, 0);
  if (walk.letter('{') != Walk::State::whole) return std::nullopt;
  std::optional<std::string> found;
  do {
    walk.next();
    const std::size_t key_begin = walk.at();
    if (walk.string() != Walk::State::whole) return std::nullopt;
    const std::string_view key = line.substr(key_begin, walk.at() - key_begin);
    if (walk.letter(':') != Walk::State::whole) return std::nullopt;
    walk.next();
    const std::size_t begin = walk.at();
    if (walk.value() != Walk::State::whole) return std::nullopt;
    if (is_key(key, field)) {
      if (found) return std::nullopt;  // which of the two?
      try {
        const Json text = parse_json(line.substr(begin, walk.at() - begin), "");
        if (text.kind() != Json::Kind::string) return std::nullopt;
        found = text.as_string();
      } catch (const UserError&) {
        return std::nullopt;
      }
    }
  } while (walk.letter(',') == Walk::State::whole);
  if (walk.letter('}') != Walk::State::whole) return std::nullopt;
  return walk.next() == '\0' && walk.is_at_end() ? found : std::nullopt;
}

}  // namespace

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(blanks, at), text.size());
}

JsonEnd end_of_json(std::string_view text, std::size_t at) {
  Walk walk(text, at);
  const JsonEnd::State state = walk.value();
  return {state, walk.at()};
}

std::string text_of_line(std::string_view line, const std::string& place, std::string_view field) {
  Json object;
  try {
    object = parse_json(line, place);
  } catch (const UserError&) {
    if (auto text = text_among_others(line, field)) return *text;
    throw;
  }
  if (object.kind() != Json::Kind::object)
    throw UserError(ExitCode::bad_data,
                    format("{}: expected an object such as {{\"{}\": \"...\"}} in each line; mend "
                           "the line",
                           place, field));
  const Json* text = object.find(field);
  if (text == nullptr || text->kind() != Json::Kind::string) {
    std::vector<std::string> names;
    for (const Json::Member& member : object.members()) names.push_back(member.key);
    names.resize(std::min<std::size_t>(names.size(), 8));
    throw UserError(
        ExitCode::bad_data,
        format("{}: expected a text in the member '{}'; got {}; choose one with --field ({})",
               place, field, text == nullptr ? "no such member" : "another type",
               names.empty() ? "the object is empty" : "there are " + join(names, ", ")));
  }
  return text->as_string();
}

}  // namespace fourfold::data
