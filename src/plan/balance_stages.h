// Which layers each stage of a pipeline has.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "plan/infeasible.h"
#include "plan/plan_spec.h"

namespace fourfold::plan {

/// By layer, the flops of all before it in a micro-batch, and of all layers at the end. Those of
/// the training graph outside of all layers count with the first or the last one.
std::vector<double> flops_before(const graph::Graph& train, std::int64_t layers);

/// The last layer of each stage but the last one: as the spec gives them or, where it leaves them
/// open, such that the stage with the most work a rank has as little as can be. Work is flops
/// (flops_before). Infeasible where there are fewer layers than stages, or what is given does not
/// add up. Cost: stages x layers^2.
std::variant<std::vector<std::int64_t>, Infeasible> balance_stages(const graph::Graph& train,
                                                                   std::int64_t layers,
                                                                   const PipelineSpec& spec);

}  // namespace fourfold::plan
