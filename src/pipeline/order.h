// In which order a mesh does its part of a step: a list of tasks, from numbers alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace fourfold::pipeline {

enum class TaskKind : std::uint8_t {
  forward,
  backward,  // with the gradients of weights, unless the order has tasks of their own for them
  weight_backward,  // gradients of weights, which no other stage waits for
  update
};

/// What one stage does at a time. An order names the micro-batches of each kind ascending.
struct Task {
  TaskKind kind = TaskKind::forward;
  std::size_t stage = 0;
  std::int64_t micro = 0;  // 0 for an update
  bool operator==(const Task&) const = default;
};

/// The tasks of one mesh in a step.
using Order = std::vector<Task>;

enum class Schedule : std::uint8_t {
  gpipe,       // all forward tasks, then all backward tasks (Huang et al. 2019, arXiv:1811.06965)
  one_f_one_b  // as many forward tasks ahead as stages follow, then forward and backward in turn
               // (Narayanan et al. 2019, PipeDream)
};
std::string_view to_string(Schedule schedule);

/// Where a stage stands in its pipeline: stage 0 is fed, the last one makes the loss.
struct Place {
  std::size_t stage = 0, stages = 1;
};

/// The tasks of a stage, with the update at the end. A pipeline of one stage does forward and
/// backward in turn, unless it is GPipe's.
Order order_of(Schedule schedule, Place place, std::int64_t micros);

/// The same order with the gradients of weights in tasks of their own, `delay` backward tasks after
/// the one that they were taken out of; those that are left come before the update.
Order with_weight_tasks(const Order& order, std::int64_t delay);

/// How many micro-batches a stage has begun and not ended at most, by the schedule's closed form:
/// all of them for GPipe; min(micros, stages - stage) for 1F1B.
std::int64_t most_in_flight(Schedule schedule, Place place, std::int64_t micros);

/// How many micro-batches hold a value at once that each of them keeps from its `first` task to its
/// `last` one, and `tasks_after` tasks longer: the slots that the value needs when micro-batch m
/// takes slot m modulo their number. Linear in tasks.
std::int64_t slots_between(const Order& order, TaskKind first, TaskKind last,
                           std::size_t tasks_after = 0);

}  // namespace fourfold::pipeline
