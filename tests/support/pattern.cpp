#include "support/pattern.h"

#include <regex>

namespace fourfold::test {

struct Pattern::Compiled {
  std::regex expression;
};

namespace {

Match strings_of(const std::smatch& found) {
  Match match;
  for (const auto& group : found) match.push_back(group.str());
  return match;
}

}  // namespace

Pattern::Pattern(const std::string& expression)
    : compiled_(std::make_unique<Compiled>(std::regex(expression))) {}
Pattern::~Pattern() = default;

bool Pattern::matches(const std::string& text) const {
  return std::regex_match(text, compiled_->expression);
}

std::optional<Match> Pattern::first_in(const std::string& text) const {
  std::smatch found;
  if (!std::regex_search(text, found, compiled_->expression)) return std::nullopt;
  return strings_of(found);
}

std::vector<Match> Pattern::all_in(const std::string& text) const {
  std::vector<Match> matches;
  const std::sregex_iterator end;
  for (std::sregex_iterator at(text.begin(), text.end(), compiled_->expression); at != end; ++at)
    matches.push_back(strings_of(*at));
  return matches;
}

std::string Pattern::replaced_in(const std::string& text, const std::string& by) const {
  return std::regex_replace(text, compiled_->expression, by);
}

}  // namespace fourfold::test
