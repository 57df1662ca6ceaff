// What the stages of a pipeline ask of their ranks and send each other, by closed form, where all
// of them have the same grid. Not yet a price: that depends on the order of ranks.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/mesh.h"
#include "search/demand.h"

namespace fourfold::search {

class BuiltGraphs;
struct Question;

/// What one kind of stage asks of a rank: stages of equal layers are of one kind.
struct CountedStage {
  Demand demand;
  std::vector<double> linears;  // AxoNN's volumes, elements by axis
};

/// A tensor that passes between two stages, in each micro-batch or once in a step.
struct CountedMessage {
  std::size_t from = 0, to = 1;
  bool is_backward = false, is_once_a_step = false;
  double bytes = 0;                    // of the whole tensor
  std::vector<AxisId> sent, received;  // axes that cut it on both sides
};

struct CountedStages {
  std::vector<CountedStage> kinds;
  std::vector<std::size_t> kind_of;  // by stage
  std::vector<std::int64_t> layers;  // by stage
  std::vector<CountedMessage> messages;
  Mesh mesh;  // of each stage: whose axes all of this speaks of

  const Demand& demand_of(std::size_t stage) const { return kinds[kind_of[stage]].demand; }
};

/// The stages of a spec whose grid is settled, each with as many layers as plan_stages gives it. A
/// model of equal layers is counted in four stages of few layers, and the rest follows in
/// proportion. Infeasible where there is no such plan.
std::variant<CountedStages, plan::Infeasible> count_stages(const Question& question,
                                                           BuiltGraphs& graphs,
                                                           const plan::PlanSpec& spec);

}  // namespace fourfold::search
