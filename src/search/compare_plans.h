// What two plans of one model do otherwise: ops that they cut in another way, and collectives that
// send another amount, each with its time. Not why one is faster as a whole (explain.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/rank_grids.h"

namespace fourfold::search {

/// An op, or the ops of such a name in several layers. Seconds of a step, with what cut forms send.
struct OpDifference {
  std::string name;  // "blocks.*.mlp.up": '*' is the number of a layer
  std::int64_t ops = 1;
  std::string a, b;  // "[8 (data), 64], [64, 256 (x)] -> [8 (data), 256 (x)]", of the first layer
  double seconds_a = 0, seconds_b = 0;
};

/// Collectives of one kind along the same axes, for tensors of one part of the model, in a step.
struct SentDifference {
  std::string what;  // "all_reduce along x of attention, for activations"
  double calls_a = 0, calls_b = 0;
  double seconds_a = 0, seconds_b = 0;  // with nothing hidden
};

/// Those whose times differ most come first.
struct PlanDifferences {
  std::vector<OpDifference> ops;
  std::vector<SentDifference> sent;
};

/// Requires plans of one mesh each, of the question. Cost: two plans of the whole model.
PlanDifferences compare_plans(const Question& question, const PricedPlan& a, const PricedPlan& b);

}  // namespace fourfold::search
