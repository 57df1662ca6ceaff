// Pipelines that the tests of this folder share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "base/format.h"
#include "pipeline/make_orders.h"
#include "pipeline/timing.h"

namespace fourfold::pipeline {

/// Every schedule, interleaved with one stage a mesh up to four.
inline std::vector<ScheduleSpec> all_schedules() {
  std::vector<ScheduleSpec> specs = {{.schedule = Schedule::gpipe},
                                     {.schedule = Schedule::one_f_one_b},
                                     {.schedule = Schedule::eager_one_f_one_b}};
  for (std::int64_t stages = 1; stages <= 4; ++stages)
    specs.push_back({.schedule = Schedule::interleaved, .stages_per_mesh = stages});
  return specs;
}

inline ScheduleSpec with_delay(ScheduleSpec spec, std::int64_t delay) {
  spec.weight_delay = {WeightDelay::Kind::fixed, delay};
  return spec;
}

inline std::vector<Order> made(const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
  auto orders = make_orders(spec, meshes, micros);
  EXPECT_TRUE(std::holds_alternative<std::vector<Order>>(orders));
  if (const auto* refusal = std::get_if<Refusal>(&orders)) {
    ADD_FAILURE() << to_text(*refusal);
    return {};
  }
  return std::get<std::vector<Order>>(std::move(orders));
}

/// Calls with every schedule, pipelines of 1 to 8 meshes and 1 to 16 micro-batches, as far as the
/// schedule takes them.
template <typename Visit>
void for_all_pipelines(const Visit& visit) {
  for (const ScheduleSpec& spec : all_schedules())
    for (std::size_t meshes = 1; meshes <= 8; ++meshes)
      for (std::int64_t micros = 1; micros <= 16; ++micros) {
        if (spec.stages_per_mesh > 1 && micros % static_cast<std::int64_t>(meshes) != 0) continue;
        SCOPED_TRACE(format("{}, {} stages on each of {} meshes, {} micro-batches",
                            to_string(spec.schedule), spec.stages_per_mesh, meshes, micros));
        visit(spec, meshes, micros);
      }
}

inline std::size_t stages_of(const ScheduleSpec& spec, std::size_t meshes) {
  return meshes * static_cast<std::size_t>(spec.stages_per_mesh);
}

/// What each stage and each message takes.
struct Uniform {
  double forward = 1, backward = 2, weight_backward = 0, to_next = 0, to_previous = 0;
};

inline Costs costs_of(std::size_t stages, const Uniform& each,
                      Transfers transfers = Transfers::overlapped) {
  return {
      .stages = std::vector<StageCost>(stages, {each.forward, each.backward, each.weight_backward}),
      .edges = chain(stages),
      .of_edges = std::vector<EdgeCost>(stages - 1, {each.to_next, each.to_previous}),
      .transfers = transfers};
}

/// A chain, and a skip from each stage to each later one that is not the next.
inline std::vector<Edge> all_skips(std::size_t stages) {
  std::vector<Edge> edges;
  for (std::size_t from = 0; from < stages; ++from)
    for (std::size_t to = from + 1; to < stages; ++to) edges.push_back({from, to});
  return edges;
}

inline Timing timed(const std::vector<Order>& orders, const Costs& costs) {
  auto result = time_orders(orders, costs);
  if (const auto* stuck = std::get_if<Stuck>(&result)) {
    ADD_FAILURE() << to_text(*stuck);
    return {};
  }
  return std::get<Timing>(std::move(result));
}

}  // namespace fourfold::pipeline
