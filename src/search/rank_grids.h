// Every legal grid of so many ranks, priced on a cluster: the planner. What is compared are plans
// of one mesh; stages of pipelines are not.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/linears.h"
#include "search/price.h"

namespace fourfold::search {

/// What is planned for.
struct Question {
  const machine::Cluster* cluster = nullptr;
  std::int64_t ranks = 1;
  plan::PlanSpec spec;  // its grid's sizes are left open
  std::int64_t layers = 1;
  /// True if a model of fewer layers asks for less in proportion: numbers follow from two small
  /// models then.
  bool has_equal_layers = false;
  /// The spec for a grid: the micro-batch settled.
  std::function<plan::PlanSpec(const plan::Grid&)> settle;
  /// The training graph alone, of so many layers, written for the batching of a spec.
  std::function<graph::ModelGraphs(std::int64_t layers, const plan::PlanSpec&)> build;
};

struct PricedPlan {
  plan::PlanSpec spec;  // with the grid, its best order, and the recomputation that fits
  std::int64_t accumulation = 1;
  Mesh mesh;  // whose axes demand and price speak of
  Demand demand;
  Price price;
  /// AxoNN's equation 9 over the linears, by the rates of the axes: what the paper ranks by.
  double linears_s = 0;
};

struct Answer {
  std::vector<PricedPlan> plans;        // that fit the memory, the fastest first
  std::vector<PricedPlan> too_large;    // what needs least memory first
  std::int64_t grids = 0;               // of so many ranks
  std::int64_t orders = 0;              // plans priced, all orders of ranks with other groups
  std::vector<plan::Problem> problems;  // of the grids that are not legal, each kind once
  double memory_bytes = 0;              // that a rank has
};

/// All (x, y, z, data) whose product is `ranks`, each with that order of ranks among those with
/// other groups which takes least time; of equal ones the configured order, then the first.
/// Recomputation that is `auto` is the least that fits; gathered weights whose number is open stay
/// where they fit. Requires a rate of the device for the type
/// of the computation, and ranks that the cluster has. Cost: a plan of two small models a grid,
/// about 10 ms for a GPT.
Answer rank_grids(const Question& question);

/// The linears of a step on a plan's grid: rows are those of all its micro-batches, and every
/// second linear is transposed.
std::vector<Linear> linears_of_step(const Question& question, const PricedPlan& priced);

}  // namespace fourfold::search
