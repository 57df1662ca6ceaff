// Why a plan cannot be, in words: the keys at fault and values that would work.
#pragma once

#include <string>
#include <vector>

#include "model/model_spec.h"
#include "plan/infeasible.h"

namespace fourfold::config {

struct InfeasibleText {
  std::vector<std::string> keys;
  std::string message;  // one line: what, then after a semicolon what to do
};

/// `kind` says whose keys are named; the first family unless given.
InfeasibleText in_words(const plan::Problem& problem, model::Kind kind = {});

}  // namespace fourfold::config
