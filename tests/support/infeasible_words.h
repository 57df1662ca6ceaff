// Why a plan cannot be, in the words that a person reads. Header only.
#pragma once

#include <string>

#include "config/infeasible_text.h"

namespace fourfold::test {

/// One line a problem.
inline std::string in_words(const plan::Infeasible& infeasible) {
  std::string text;
  for (const plan::Problem& problem : infeasible.problems)
    text += (text.empty() ? "" : "\n") + config::in_words(problem).message;
  return text;
}

}  // namespace fourfold::test
