// What training on so many tokens would take on the first plan of a list: days, node-hours, and
// what of it goes into checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "job/rank_plans.h"

namespace fourfold::show {

struct TrainingCost {
  double tokens = 0, steps = 0, seconds = 0;
  std::optional<double> node_hours;  // none where the machine does not say what a node is
  std::int64_t nodes = 0;
  double rank_hours = 0;
  double checkpoint_bytes = 0;             // of one
  double checkpoint_every_s = 0;           // steps between two; 0: none is saved
  std::optional<double> checkpoint_s;      // to write one; none where the machine has no rate
  std::optional<double> checkpoint_share;  // of the time, if a run waited for each
};

/// Requires a GPT. Errors: UserError(bad_config) for models that read no tokens.
TrainingCost training_cost(const job::Ranking& ranking, std::int64_t tokens);

/// One or two sentences.
std::string to_text(const TrainingCost& cost);
Json to_json(const TrainingCost& cost);

}  // namespace fourfold::show
