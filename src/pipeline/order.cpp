#include "pipeline/order.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace fourfold::pipeline {
namespace {

constexpr std::array<std::pair<Schedule, std::string_view>, 4> schedule_names = {
    {{Schedule::gpipe, "gpipe"},
     {Schedule::one_f_one_b, "1f1b"},
     {Schedule::interleaved, "interleaved"},
     {Schedule::eager_one_f_one_b, "eager-1f1b"}}};

std::vector<std::size_t> places_of(const Order& order, std::optional<std::size_t> stage,
                                   TaskKind kind) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i].kind == kind && (!stage || order[i].stage == *stage)) places.push_back(i);
  return places;
}

std::int64_t most_between(const std::vector<std::size_t>& begins,
                          const std::vector<std::size_t>& ends, std::size_t tasks_after) {
  require(begins.size() == ends.size(), "each micro-batch has one task of each kind");
  std::size_t most = 0;
  std::size_t begun = 0;  // micro-batches that begin before the one at hand has ended
  for (std::size_t micro = 0; micro < ends.size(); ++micro) {
    while (begun < begins.size() && begins[begun] <= ends[micro] + tasks_after) ++begun;
    most = std::max(most, begun - micro);
  }
  return static_cast<std::int64_t>(most);
}

/// Forward and backward tasks in turn, after `in_flight` - 1 forward ones. The functions give the
/// n-th task of their kind.
template <typename Forward, typename Backward>
Order in_turn(std::int64_t count, std::int64_t in_flight, const Forward& forward,
              const Backward& backward) {
  const std::int64_t ahead = in_flight - 1;
  Order order;
  order.reserve(static_cast<std::size_t>(2 * count + 1));
  for (std::int64_t turn = 0; turn < count + ahead; ++turn) {
    if (turn < count) order.push_back(forward(turn));
    if (turn >= ahead) order.push_back(backward(turn - ahead));
  }
  return order;
}

}  // namespace

std::string_view letter_of(TaskKind kind) {
  constexpr std::array<std::string_view, 4> letters = {"F", "B", "W", "U"};
  return letters.at(static_cast<std::size_t>(kind));
}

std::string_view to_string(Schedule schedule) {
  return std::ranges::find(schedule_names, schedule, [](const auto& row) { return row.first; })
      ->second;
}

std::optional<Schedule> schedule_from(std::string_view name) {
  for (const auto& [schedule, text] : schedule_names)
    if (text == name) return schedule;
  return std::nullopt;
}

Order order_of(Schedule schedule, Place place, std::int64_t micros) {
  require(place.stage < place.stages && micros > 0, "a stage of a pipeline has micro-batches");
  return order_ahead(place.stage, micros, most_in_flight(schedule, place, micros));
}

Order order_ahead(std::size_t stage, std::int64_t micros, std::int64_t in_flight) {
  require(in_flight >= 1 && in_flight <= micros, "a stage has begun one micro-batch, or up to all");
  Order order = in_turn(
      micros, in_flight, [&](std::int64_t turn) { return Task{TaskKind::forward, stage, turn}; },
      [&](std::int64_t turn) { return Task{TaskKind::backward, stage, turn}; });
  order.push_back({TaskKind::update, stage, 0});
  return order;
}

Order interleaved_order(InterleavedPlace place, std::int64_t micros) {
  const auto meshes = static_cast<std::int64_t>(place.meshes),
             laps = static_cast<std::int64_t>(place.stages_per_mesh);
  require(place.mesh < place.meshes && laps > 0 && micros > 0,
          "a mesh of a pipeline has stages and micro-batches");
  require(laps == 1 || micros % meshes == 0,
          "the meshes of an interleaved pipeline divide its micro-batches");
  // A group of micro-batches goes through the mesh once for each of its stages. One stage needs no
  // groups: the micro-batches follow one another.
  const auto micro_of = [&](std::int64_t turn) {
    return laps == 1 ? turn : turn / (meshes * laps) * meshes + turn % meshes;
  };
  const auto lap_of = [&](std::int64_t turn) { return turn % (meshes * laps) / meshes; };
  const auto stage_of = [&](std::int64_t lap) {
    return place.mesh + static_cast<std::size_t>(lap) * place.meshes;
  };
  Order order = in_turn(
      micros * laps, most_in_flight(place, micros),
      [&](std::int64_t turn) {
        return Task{TaskKind::forward, stage_of(lap_of(turn)), micro_of(turn)};
      },
      [&](std::int64_t turn) {
        return Task{TaskKind::backward, stage_of(laps - 1 - lap_of(turn)), micro_of(turn)};
      });
  for (std::int64_t lap = 0; lap < laps; ++lap)
    order.push_back({TaskKind::update, stage_of(lap), 0});
  return order;
}

Order with_weight_tasks(const Order& order, std::int64_t delay) {
  Order result, backward;
  std::size_t next = 0;
  const auto catch_up = [&](std::size_t left) {
    for (; next + left < backward.size(); ++next)
      result.push_back({TaskKind::weight_backward, backward[next].stage, backward[next].micro});
  };
  for (const Task& task : order) {
    if (task.kind == TaskKind::update) catch_up(0);
    result.push_back(task);
    if (task.kind != TaskKind::backward) continue;
    backward.push_back(task);
    catch_up(static_cast<std::size_t>(delay));
  }
  return result;
}

std::int64_t most_in_flight(Schedule schedule, Place place, std::int64_t micros) {
  const auto left = static_cast<std::int64_t>(place.stages - place.stage);
  switch (schedule) {
    case Schedule::gpipe:
      return micros;
    case Schedule::one_f_one_b:
    case Schedule::interleaved:
      return std::min(micros, left);
    case Schedule::eager_one_f_one_b:
      return std::min(micros, 2 * left - 1);
  }
  fail_internal("every schedule has a closed form");
}

std::int64_t most_in_flight(InterleavedPlace place, std::int64_t micros) {
  if (place.stages_per_mesh == 1)
    return most_in_flight(Schedule::one_f_one_b, {place.mesh, place.meshes}, micros);
  const auto meshes = static_cast<std::int64_t>(place.meshes),
             laps = static_cast<std::int64_t>(place.stages_per_mesh),
             left = meshes - static_cast<std::int64_t>(place.mesh);
  return std::min(laps * micros, 2 * (left - 1) + (laps - 1) * meshes + 1);
}

std::int64_t most_live(std::int64_t in_flight, std::int64_t delay, std::int64_t forwards) {
  return std::min(forwards, in_flight + delay);
}

std::int64_t slots_between(const Order& order, TaskKind first, TaskKind last,
                           std::size_t tasks_after) {
  return most_between(places_of(order, std::nullopt, first), places_of(order, std::nullopt, last),
                      tasks_after);
}

std::int64_t slots_between(const Order& order, std::size_t stage, TaskKind first, TaskKind last,
                           std::size_t tasks_after) {
  return most_between(places_of(order, stage, first), places_of(order, stage, last), tasks_after);
}

}  // namespace fourfold::pipeline
