// In which order a mesh does its part of a step: a list of tasks, from numbers alone. What all
// meshes of a pipeline do by one description: make_orders.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace fourfold::pipeline {

enum class TaskKind : std::uint8_t {
  forward,
  backward,  // with the gradients of weights, unless the order has tasks of their own for them
  weight_backward,  // gradients of weights, which no other stage waits for
  update
};

/// What one stage does at a time. An order names the micro-batches of each kind and stage
/// ascending.
struct Task {
  TaskKind kind = TaskKind::forward;
  std::size_t stage = 0;
  std::int64_t micro = 0;  // 0 for an update
  bool operator==(const Task&) const = default;
};
/// "F", "B", "W" or "U".
std::string_view letter_of(TaskKind kind);

/// The tasks of one mesh in a step.
using Order = std::vector<Task>;

enum class Schedule : std::uint8_t {
  gpipe,        // all forward tasks, then all backward tasks (Huang et al. 2019, arXiv:1811.06965)
  one_f_one_b,  // as many forward tasks ahead as stages follow, then forward and backward in turn
                // (Narayanan et al. 2019, PipeDream)
  interleaved,  // 1F1B of meshes that have several stages each, mesh i of S the stages i, i + S,
                // i + 2S ... (Narayanan et al. 2021, arXiv:2104.04473, section 2.2)
  eager_one_f_one_b  // twice as many forward tasks ahead, so that those of other micro-batches run
                     // while one is sent (Zhuang et al. 2023, arXiv:2211.05322, section 4)
};
/// "gpipe", "1f1b", "interleaved", "eager-1f1b".
std::string_view to_string(Schedule schedule);
std::optional<Schedule> schedule_from(std::string_view name);

/// Where a stage stands in its pipeline: stage 0 is fed, the last one makes the loss.
struct Place {
  std::size_t stage = 0, stages = 1;
};

/// The tasks of a stage that has a mesh to itself, with the update at the end. A pipeline of one
/// stage does forward and backward in turn, unless it is GPipe's.
Order order_of(Schedule schedule, Place place, std::int64_t micros);

/// The order that begins `in_flight` micro-batches before it ends the first, and then does one
/// backward task for each forward one. Requires in_flight from 1 to micros.
Order order_ahead(std::size_t stage, std::int64_t micros, std::int64_t in_flight);

/// A mesh of an interleaved pipeline: which of how many, and the stages that each one has.
struct InterleavedPlace {
  std::size_t mesh = 0, meshes = 1, stages_per_mesh = 1;
};
/// The tasks of a mesh with several stages: micro-batches go through them in groups of as many as
/// there are meshes. With one stage a mesh it is 1F1B's order.
/// Requires micro-batches that the meshes divide, where a mesh has several stages.
Order interleaved_order(InterleavedPlace place, std::int64_t micros);

/// The same order with the gradients of weights in tasks of their own, `delay` backward tasks after
/// the one that they were taken out of; those that are left come before the first update.
Order with_weight_tasks(const Order& order, std::int64_t delay);

/// How many micro-batches a stage has begun and not ended at most, by the schedule's closed form:
/// all of them for GPipe; min(micros, stages - stage) for 1F1B, and for interleaved; min(micros,
/// 2 (stages - stage) - 1) for eager-1F1B, which is 2(S - i) + 1 of stage i from 1 to S.
std::int64_t most_in_flight(Schedule schedule, Place place, std::int64_t micros);

/// How many forward tasks of a mesh, over all its stages, have no backward task yet at most: with v
/// stages a mesh, min(v micros, 2 (meshes - mesh - 1) + (v - 1) meshes + 1); with one as 1F1B.
std::int64_t most_in_flight(InterleavedPlace place, std::int64_t micros);

/// How many forward tasks await their weight part at most, where `in_flight` await the backward
/// task: each delayed one keeps its activations. `forwards`: those of a mesh in a step.
std::int64_t most_live(std::int64_t in_flight, std::int64_t delay, std::int64_t forwards);

/// How many micro-batches hold a value at once that each of them keeps from its `first` task to its
/// `last` one, and `tasks_after` tasks longer: the slots that the value needs when micro-batch m
/// takes slot m modulo their number. The order is that of one stage. Linear in tasks.
std::int64_t slots_between(const Order& order, TaskKind first, TaskKind last,
                           std::size_t tasks_after = 0);

/// The same of a value of one stage, where the mesh may have others: their tasks count as tasks
/// that come after.
std::int64_t slots_between(const Order& order, std::size_t stage, TaskKind first, TaskKind last,
                           std::size_t tasks_after = 0);

}  // namespace fourfold::pipeline
