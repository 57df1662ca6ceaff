#include "pipeline/choose_orders.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace fourfold::pipeline {
namespace {

/// Sums of the same durations in another order differ by less than this part.
constexpr double rounding = 1e-9;

Timing timing_of(const std::vector<Order>& orders, const Costs& costs) {
  auto timed = time_orders(orders, costs);
  require(std::holds_alternative<Timing>(timed), [&] {
    return "the orders of a schedule come to their end: " + to_text(std::get<Stuck>(timed));
  });
  return std::move(std::get<Timing>(timed));
}

/// By mesh: by how much it may delay, at most by all forward tasks.
std::vector<std::int64_t> rooms(const ScheduleSpec& spec,
                                const std::vector<std::int64_t>& in_flight, std::int64_t forwards) {
  std::vector<std::int64_t> result;
  for (std::size_t mesh = 0; mesh < in_flight.size(); ++mesh) {
    const auto cap = spec.caps.empty() ? std::nullopt : spec.caps[mesh];
    result.push_back(cap && *cap < forwards ? *cap - in_flight[mesh] : forwards);
  }
  return result;
}

}  // namespace

std::variant<ChosenOrders, Refusal> choose_orders(const ScheduleSpec& spec, std::size_t meshes,
                                                  std::int64_t micros, const Costs& costs) {
  auto made = make_orders(spec, meshes, micros);
  if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
  ChosenOrders best{std::move(std::get<std::vector<Order>>(made)), {}, std::nullopt};
  best.timing = timing_of(best.orders, costs);
  if (spec.weight_delay.kind == WeightDelay::Kind::fixed) best.delay = spec.weight_delay.micros;
  if (spec.weight_delay.kind != WeightDelay::Kind::automatic) return best;

  const std::vector<Order> plain = best.orders;
  const std::vector<std::int64_t> room =
      rooms(spec, std::get<std::vector<std::int64_t>>(in_flight_by_mesh(spec, meshes, micros)),
            micros * spec.stages_per_mesh);
  const std::int64_t most = std::ranges::max(room);
  std::size_t in_vain = 0;
  for (std::int64_t delay = 0; delay <= most && in_vain < 2 * meshes; ++delay) {
    ChosenOrders next{{}, {}, delay};
    for (std::size_t mesh = 0; mesh < meshes; ++mesh)
      next.orders.push_back(with_weight_tasks(plain[mesh], std::min(delay, room[mesh])));
    next.timing = timing_of(next.orders, costs);
    const bool is_shorter = next.timing.makespan_s < best.timing.makespan_s * (1 - rounding);
    in_vain = is_shorter ? 0 : in_vain + 1;
    if (is_shorter) best = std::move(next);
  }
  return best;
}

}  // namespace fourfold::pipeline
