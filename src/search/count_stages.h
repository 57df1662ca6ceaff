// What the stages of a pipeline ask of their ranks and send each other, by closed form. Not yet a
// price: that depends on the order of ranks.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/mesh.h"
#include "search/demand.h"

namespace fourfold::search {

class BuiltGraphs;
struct Question;

/// What one kind of stage asks of a rank: stages of equal layers and meshes are of one kind.
struct CountedStage {
  Demand demand;
  std::size_t mesh = 0;         // of CountedStages: whose axes this speaks of
  std::vector<double> linears;  // AxoNN's volumes, elements by axis
};

/// A tensor that passes between two stages, in each micro-batch or once in a step.
struct CountedMessage {
  std::size_t from = 0, to = 1;
  bool is_backward = false, is_once_a_step = false;
  double bytes = 0;                    // of the whole tensor
  std::vector<AxisId> sent, received;  // axes that cut it on both sides, each of its own mesh
};

struct CountedStages {
  std::vector<CountedStage> kinds;
  std::vector<std::size_t> kind_of;  // by stage
  std::vector<std::int64_t> layers;  // by stage
  std::vector<CountedMessage> messages;
  std::vector<Mesh> meshes;  // one where all stages have the same grid

  const Demand& demand_of(std::size_t stage) const { return kinds[kind_of[stage]].demand; }
  const Mesh& mesh_of(std::size_t stage) const { return meshes[kinds[kind_of[stage]].mesh]; }
};

/// Four stages of few layers, of which the third has twice as many: that one has more what as many
/// layers more ask of any stage. They say what any number of stages of equal layers ask.
struct FewStages {
  CountedStage first, middle, longer, last;
  std::vector<CountedMessage> messages;
  Mesh mesh;
};

/// The stages of a spec whose grid is settled, and that of all of them, each with as many layers as
/// plan_stages gives it. A model of equal layers is counted in four stages of few layers, and the
/// rest follows in proportion. Infeasible where there is no such plan.
std::variant<CountedStages, plan::Infeasible> count_stages(const Question& question,
                                                           BuiltGraphs& graphs,
                                                           const plan::PlanSpec& spec);

/// The stages of a plan in which each has a mesh of its own: of each stage what it asks for and
/// sends where all stages have its grid. Those have the same layers and the same micro-batches.
CountedStages with_own_meshes(const std::vector<const CountedStages*>& of_stages);

}  // namespace fourfold::search
