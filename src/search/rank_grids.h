// Every legal grid of so many ranks, of one mesh and of the stages of pipelines, priced on a
// cluster: the planner. Beside them pipelines in which each stage has a grid of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "program/job.h"
#include "search/linears.h"
#include "search/price.h"
#include "search/price_stages.h"
#include "simulate/by_analogy.h"
#include "simulate/prediction.h"

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
  /// The spec for a grid of each of so many stages: the micro-batch settled.
  std::function<plan::PlanSpec(const plan::Grid&, std::int64_t stages)> settle;
  /// The training graph alone, of so many layers, written for the batching of a spec.
  std::function<graph::ModelGraphs(std::int64_t layers, const plan::PlanSpec&)> build;
  /// True for grids that may be chosen; empty: all.
  std::function<bool(const plan::Grid&)> admits;
  /// The order of ranks is that of the spec; else each grid has its best one.
  bool keeps_order = false;
  /// Numbers of stages to look at, where they divide the ranks and the model has as many layers.
  std::vector<std::int64_t> stages = {1};
  /// The schedules of pipelines to choose from: a later one where it is faster.
  std::vector<pipeline::Schedule> schedules = {pipeline::Schedule::one_f_one_b};
  /// Pipelines are looked at in which each stage has a mesh of its own.
  bool own_meshes = false;
  /// Beside the strategy's plan of each grid of one mesh stands the one whose layout is searched
  /// for.
  bool searches_layouts = false;
  /// A plan of one mesh whose layout the user has given, which stands in the list.
  std::optional<plan::PlanSpec> given = std::nullopt;
  /// All programs of a run with a spec. Asked for where plans are simulated, or where memory may
  /// have no room for a layout that is searched for; called from several threads.
  std::function<program::Job(const plan::PlanSpec&)> compile;
};

/// What the programs of a plan take, rather than what their closed form says.
struct Simulated {
  double step_s = 0;
  double exposed_s = 0;                         // exchanges that nothing hides
  std::vector<simulate::Cost> costs;            // that the step is made of, the longest first
  std::vector<simulate::ByAnalogy> by_analogy;  // what of it nobody measured on the machine
  bool is_bound = false;    // the slowest of unlike groups stands for all of them
  std::int64_t micros = 1;  // that were followed: those of the step, or fewer
  std::int64_t bytes = 0;   // both regions of the rank that has most
  bool fits = true;
};

/// An order of ranks, and what it makes of a grid.
struct PricedOrder {
  std::vector<std::string> order;
  Price price;
  double linears_s = 0;
};

/// A schedule, and what it makes of the stages of a grid in its best order.
struct PricedSchedule {
  pipeline::Schedule schedule = pipeline::Schedule::one_f_one_b;
  std::vector<StageOfPlan> stages;
  Demand demand;
  Price price;
};

struct PricedPlan {
  plan::PlanSpec spec;  // with the grid, its best order, and the recomputation that fits
  std::int64_t accumulation = 1;
  Mesh mesh;      // whose axes demand and price speak of
  Demand demand;  // of a pipeline that of its fullest stage
  Price price;    // and that of its slowest one, with what waiting for the others takes
  /// AxoNN's equation 9 over the linears, by the rates of the axes: what the paper ranks by.
  double linears_s = 0;
  std::vector<StageOfPlan> stages;  // of a pipeline, the first one first; else empty
  /// Another schedule of the pipeline that fits, and whose programs may be faster.
  std::optional<PricedSchedule> other_schedule;
  /// The order that takes least where nothing is hidden, if it is another one.
  std::optional<PricedOrder> plain_order;
  /// A search on the grid ends at the strategy's layout, which this plan has.
  bool is_searched_too = false;
  std::optional<Simulated> simulated;  // see simulate_best.h
  std::string never_ends;  // where its ranks wait for each other for ever: who waits for whom

  /// What is known best of the time of a step.
  double seconds() const { return simulated ? simulated->step_s : price.step(); }
  /// The least time with nothing hidden.
  double plain_seconds() const { return plain_order ? plain_order->price.all() : price.all(); }
  /// What the programs are expected to take: as much room beside computation as they have.
  double expected_bytes() const { return demand.memory.all() + demand.room_bytes; }
};

struct Answer {
  std::vector<PricedPlan> plans;         // that fit the memory, the fastest first
  std::vector<PricedPlan> too_large;     // what needs least memory first
  std::vector<PricedPlan> never_ending;  // whose programs, once compiled, do not come to their end
  std::int64_t grids = 0;                // of so many ranks, for all numbers of stages
  std::int64_t with_own_meshes = 0;      // pipelines whose stages differ in their grids
  std::int64_t with_layouts = 0;         // that were searched for, or given
  /// The most parameters of a layout that was searched for that have all been cut, where memory
  /// still had no room.
  std::size_t cut_in_vain = 0;
  std::int64_t not_searched = 0;        // grids on which a problem is too large to be solved
  std::string not_searched_as;          // why one of them is not
  std::int64_t orders = 0;              // plans priced, all orders of ranks with other groups
  std::vector<plan::Problem> problems;  // of the grids that are not legal, each kind once
  double memory_bytes = 0;              // that a rank has
  std::size_t simulated = 0;            // so many of `plans`, which are its first
};

/// All (x, y, z, data) that the question admits, whose product is `ranks` by the number of stages,
/// each with that order of ranks among those with other groups which takes least time; of equal
/// ones the configured order, then the first. Stages lie one after another in rank order.
/// Recomputation that is `auto` is the least that fits; gathered weights whose number is open stay
/// where they fit. Beside the best pipelines of each number of stages stand those that
/// choose_meshes makes of them, where the question has `own_meshes`. Requires a rate of the device
/// for the type of the computation, and ranks that the cluster has. Cost: a plan of two small
/// models a grid, about 10 ms for a GPT.
Answer rank_grids(const Question& question);

/// All grids of so many ranks, in the order of another one.
std::vector<plan::Grid> grids_of_ranks(std::int64_t ranks, const plan::Grid& like);

/// Has all meshes of a spec lie in an order of ranks.
void set_order(plan::PlanSpec& spec, const std::vector<std::string>& order);

/// The linears of a step on a plan's grid: rows are those of all its micro-batches, and every
/// second linear is transposed.
std::vector<Linear> linears_of_step(const Question& question, const PricedPlan& priced);

}  // namespace fourfold::search
