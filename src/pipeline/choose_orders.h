// The orders of a pipeline whose delay of the weights' part may be left to the costs.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "pipeline/make_orders.h"
#include "pipeline/timing.h"

namespace fourfold::pipeline {

struct ChosenOrders {
  std::vector<Order> orders;
  Timing timing;
  /// By how many backward tasks the weights' part is delayed; nothing where it has no tasks.
  std::optional<std::int64_t> delay;
};

/// The orders of the schedule and when they run. An automatic delay is the least one with the
/// shortest step, none where tasks of their own make no step shorter; on a mesh with a cap it is
/// less, so that no more activations are alive than the cap allows (Zhuang et al. 2023, section 4,
/// "backward weight delaying"). It is sought upwards from 0, until twice as many in a row as there
/// are meshes have made nothing shorter.
std::variant<ChosenOrders, Refusal> choose_orders(const ScheduleSpec& spec, std::size_t meshes,
                                                  std::int64_t micros, const Costs& costs);

}  // namespace fourfold::pipeline
