#include "pipeline/make_orders.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::pipeline {
namespace {

std::string words(const UnevenGroups& refusal) {
  const std::int64_t below = refusal.micros / refusal.meshes * refusal.meshes;
  return format(
      "an interleaved pipeline of {} meshes cannot take {} micro-batches, which it does in groups "
      "of {}; {}{} can",
      refusal.meshes, refusal.micros, refusal.meshes, below > 0 ? format("{} and ", below) : "",
      below + refusal.meshes);
}

std::string words(const SeveralStages& refusal) {
  return format("the schedule {} gives a mesh one stage, not {}; the schedule interleaved can",
                to_string(refusal.schedule), refusal.stages_per_mesh);
}

std::string words(const TooManyInFlight& refusal) {
  return format(
      "mesh {} holds {} micro-batches in flight at once and the schedule needs {}; smaller "
      "micro-batches, more recomputation or a lower delay of the weights' part may fit",
      refusal.mesh, refusal.cap, refusal.needed);
}

/// What a schedule would keep in flight on a mesh, and the least that it can do with.
struct InFlight {
  std::int64_t most = 1, least = 1;
};

InFlight in_flight_of(const ScheduleSpec& spec, std::size_t mesh, std::size_t meshes,
                      std::int64_t micros) {
  if (spec.schedule == Schedule::interleaved) {
    const std::int64_t most = most_in_flight(
        InterleavedPlace{mesh, meshes, static_cast<std::size_t>(spec.stages_per_mesh)}, micros);
    return {most, most};
  }
  const Place place{mesh, meshes};
  const std::int64_t most = most_in_flight(spec.schedule, place, micros);
  const bool may_be_fewer = spec.schedule == Schedule::eager_one_f_one_b;
  return {most, may_be_fewer ? most_in_flight(Schedule::one_f_one_b, place, micros) : most};
}

std::int64_t fixed_delay(const ScheduleSpec& spec) {
  return spec.weight_delay.kind == WeightDelay::Kind::fixed ? spec.weight_delay.micros : 0;
}

std::optional<Refusal> misfit(const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
  if (spec.stages_per_mesh == 1) return std::nullopt;
  if (spec.schedule != Schedule::interleaved)
    return SeveralStages{spec.schedule, spec.stages_per_mesh};
  if (micros % static_cast<std::int64_t>(meshes) != 0)
    return UnevenGroups{micros, static_cast<std::int64_t>(meshes)};
  return std::nullopt;
}

}  // namespace

std::string to_text(const Refusal& refusal) {
  return std::visit([](const auto& what) { return words(what); }, refusal);
}

std::variant<std::vector<std::int64_t>, Refusal> in_flight_by_mesh(const ScheduleSpec& spec,
                                                                   std::size_t meshes,
                                                                   std::int64_t micros) {
  require(meshes > 0 && micros > 0 && spec.stages_per_mesh > 0,
          "a pipeline has meshes, stages and micro-batches");
  require(spec.caps.empty() || spec.caps.size() == meshes, "each mesh has a cap, or none has");
  if (auto refusal = misfit(spec, meshes, micros)) return std::move(*refusal);
  const std::int64_t forwards = micros * spec.stages_per_mesh;
  std::vector<std::int64_t> result;
  std::int64_t before = forwards;  // what the mesh before may have in flight
  for (std::size_t mesh = 0; mesh < meshes; ++mesh) {
    const InFlight need = in_flight_of(spec, mesh, meshes, micros);
    std::int64_t count = std::min(need.most, std::max(need.least, before));
    if (const auto cap = spec.caps.empty() ? std::nullopt : spec.caps[mesh]) {
      if (const std::int64_t least = most_live(need.least, fixed_delay(spec), forwards);
          *cap < least)
        return TooManyInFlight{mesh, least, *cap};
      // All forward tasks fit the cap, or as many fewer as the delay keeps alive.
      if (*cap < forwards) count = std::min(count, *cap - fixed_delay(spec));
    }
    result.push_back(count);
    before = count;
  }
  return result;
}

std::variant<std::vector<Order>, Refusal> make_orders(const ScheduleSpec& spec, std::size_t meshes,
                                                      std::int64_t micros) {
  const auto in_flight = in_flight_by_mesh(spec, meshes, micros);
  if (const auto* refusal = std::get_if<Refusal>(&in_flight)) return *refusal;
  std::vector<Order> orders;
  for (std::size_t mesh = 0; mesh < meshes; ++mesh) {
    Order order =
        spec.schedule == Schedule::interleaved
            ? interleaved_order({mesh, meshes, static_cast<std::size_t>(spec.stages_per_mesh)},
                                micros)
            : order_ahead(mesh, micros, std::get<std::vector<std::int64_t>>(in_flight)[mesh]);
    if (spec.weight_delay.kind == WeightDelay::Kind::fixed)
      order = with_weight_tasks(order, spec.weight_delay.micros);
    orders.push_back(std::move(order));
  }
  return orders;
}

}  // namespace fourfold::pipeline
