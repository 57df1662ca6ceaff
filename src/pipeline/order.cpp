#include "pipeline/order.h"

#include <algorithm>

#include "base/error.h"

namespace fourfold::pipeline {
namespace {

std::vector<std::size_t> places_of(const Order& order, TaskKind kind) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i].kind == kind) places.push_back(i);
  return places;
}

}  // namespace

std::string_view to_string(Schedule schedule) {
  return schedule == Schedule::gpipe ? "gpipe" : "1f1b";
}

Order order_of(Schedule schedule, Place place, std::int64_t micros) {
  require(place.stage < place.stages && micros > 0, "a stage of a pipeline has micro-batches");
  const std::int64_t ahead = most_in_flight(schedule, place, micros) - 1;
  Order order;
  for (std::int64_t turn = 0; turn < micros + ahead; ++turn) {
    if (turn < micros) order.push_back({TaskKind::forward, place.stage, turn});
    if (turn >= ahead) order.push_back({TaskKind::backward, place.stage, turn - ahead});
  }
  order.push_back({TaskKind::update, place.stage, 0});
  return order;
}

Order with_weight_tasks(const Order& order, std::int64_t delay) {
  Order result;
  std::int64_t done = 0, next = 0;
  for (const Task& task : order) {
    if (task.kind == TaskKind::update)
      while (next < done) result.push_back({TaskKind::weight_backward, task.stage, next++});
    result.push_back(task);
    if (task.kind != TaskKind::backward) continue;
    ++done;
    if (next + delay < done) result.push_back({TaskKind::weight_backward, task.stage, next++});
  }
  return result;
}

std::int64_t most_in_flight(Schedule schedule, Place place, std::int64_t micros) {
  if (schedule == Schedule::gpipe) return micros;
  return std::min(micros, static_cast<std::int64_t>(place.stages - place.stage));
}

std::int64_t slots_between(const Order& order, TaskKind first, TaskKind last,
                           std::size_t tasks_after) {
  const std::vector<std::size_t> begins = places_of(order, first), ends = places_of(order, last);
  require(begins.size() == ends.size(), "each micro-batch has one task of each kind");
  std::size_t most = 0;
  std::size_t begun = 0;  // micro-batches that begin before the one at hand has ended
  for (std::size_t micro = 0; micro < ends.size(); ++micro) {
    while (begun < begins.size() && begins[begun] <= ends[micro] + tasks_after) ++begun;
    most = std::max(most, begun - micro);
  }
  return static_cast<std::int64_t>(most);
}

}  // namespace fourfold::pipeline
