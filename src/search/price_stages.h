// The price and the memory of a pipeline from what its stages ask for (count_stages.h), by closed
// form: the slowest stage, what waiting for the others adds, and the fullest stage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/schedule_spec.h"
#include "pipeline/timing.h"
#include "search/count_stages.h"
#include "search/price.h"

namespace fourfold::search {

/// A stage of a priced plan.
struct StageOfPlan {
  std::int64_t layers = 0;
  std::int64_t in_flight = 1;  // micro-batches that it has begun and not ended at most
  double memory_bytes = 0;     // of a rank, with as many under way
};

/// The stages with the memory that a schedule makes them need; nothing where the schedule does not
/// go with so many micro-batches.
std::optional<std::vector<StageOfPlan>> stages_in_schedule(const CountedStages& counted,
                                                           const pipeline::ScheduleSpec& schedule,
                                                           std::int64_t micros);

/// The demand of the stage that needs most memory, with what it keeps in flight.
Demand fullest_demand(const CountedStages& counted, const std::vector<StageOfPlan>& stages);

/// What stages take in one order of ranks, whatever the schedule.
struct TimedStages {
  std::vector<Price> kinds;      // of CountedStages
  pipeline::Costs costs;         // of a micro-batch
  std::vector<double> at_end_s;  // by stage
};
/// By mesh of the stages, the groups of its axes in an order of ranks (innermost first).
using GroupsOfMeshes = std::vector<std::vector<machine::AxisGroup>>;
GroupsOfMeshes groups_of_stages(const CountedStages& counted,
                                const std::vector<std::string>& order);

/// A third of what a micro-batch computes is forward, and a quarter where the backward pass
/// computes it again.
TimedStages time_stages(const CountedStages& counted, Pricer& pricer, const GroupsOfMeshes& groups,
                        const plan::PlanSpec& spec, std::int64_t micros);

/// The price of the slowest stage, with what a step of the pipeline takes more.
Price price_of_stages(const CountedStages& counted, const TimedStages& timed,
                      pipeline::Schedule schedule, std::int64_t micros);

}  // namespace fourfold::search
