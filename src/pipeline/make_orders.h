// The orders of all meshes of a pipeline from one description, or why there are none, as data.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "pipeline/order.h"
#include "pipeline/schedule_spec.h"

namespace fourfold::pipeline {

/// An interleaved pipeline whose micro-batches do not make whole groups.
struct UnevenGroups {
  std::int64_t micros = 1, meshes = 1;
  bool operator==(const UnevenGroups&) const = default;
};
/// A schedule that gives a mesh one stage was asked for several.
struct SeveralStages {
  Schedule schedule = Schedule::one_f_one_b;
  std::int64_t stages_per_mesh = 1;
  bool operator==(const SeveralStages&) const = default;
};
/// A mesh whose memory does not hold the micro-batches that the schedule needs at the least.
struct TooManyInFlight {
  std::size_t mesh = 0;
  std::int64_t needed = 1, cap = 0;
  bool operator==(const TooManyInFlight&) const = default;
};
using Refusal = std::variant<UnevenGroups, SeveralStages, TooManyInFlight>;
/// One sentence, with what would work.
std::string to_text(const Refusal& refusal);

/// By mesh: how many forward tasks await their backward task at most. It is the closed form of the
/// schedule; under a cap, eager-1F1B begins fewer micro-batches ahead, down to as many as 1F1B, on
/// the mesh and on those after it, none of which may be further ahead than the one before: it would
/// wait for micro-batches that are never sent. The other schedules need what they need. What a
/// fixed delay of the weights' part keeps alive counts under the cap; an automatic one counts as 0.
std::variant<std::vector<std::int64_t>, Refusal> in_flight_by_mesh(const ScheduleSpec& spec,
                                                                   std::size_t meshes,
                                                                   std::int64_t micros);

/// The orders of all meshes. An automatic delay is not settled here (choose_orders): the orders are
/// those without tasks for weights.
std::variant<std::vector<Order>, Refusal> make_orders(const ScheduleSpec& spec, std::size_t meshes,
                                                      std::int64_t micros);

}  // namespace fourfold::pipeline
