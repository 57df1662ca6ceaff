#include "simulate/prediction.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/format.h"
#include "base/units.h"
#include "simulate/cost_sums.h"

namespace fourfold::simulate {

Prediction predict(const program::Job& job, const Simulation& simulation) {
  CostSums sums(job, simulation);
  const trace::Interval whole{0, std::llround(simulation.step_s * 1e9)};
  for (const SimulatedRank& rank : simulation.ranks) sums.add(rank, whole, 1);
  Prediction prediction = std::move(sums).result();
  prediction.step_s = simulation.step_s;
  add_work(job, simulation, prediction);
  return prediction;
}

std::optional<double> peak_flops_per_s(const machine::Cluster& cluster, DType dtype,
                                       std::int64_t ranks) {
  const machine::ComputeRate* rate = machine::rate_of(cluster.device, dtype);
  if (rate == nullptr) return std::nullopt;
  const std::int64_t devices = (ranks + cluster.ranks_per_device - 1) / cluster.ranks_per_device;
  return rate->flops_per_s * static_cast<double>(devices);
}

std::string place_text(const machine::Cluster& cluster, std::int64_t ranks) {
  std::int64_t count = (ranks + cluster.ranks_per_device - 1) / cluster.ranks_per_device;
  std::string text =
      count == cluster.devices()
          ? (count == 1 ? "its device" : format("all {} devices", format_grouped(count)))
          : format("{} of {} devices", format_grouped(count), format_grouped(cluster.devices()));
  if (cluster.ranks_per_device > 1) text += format(", {} ranks each", cluster.ranks_per_device);
  std::string levels;
  for (const machine::Level& level : cluster.levels) {
    const std::int64_t here = std::min(count, level.units);
    levels += format("{}{} {}", levels.empty() ? ": " : " x ", format_grouped(here), level.name);
    count = (count + level.units - 1) / level.units;
  }
  return text + levels;
}

std::string host_text(const machine::Cluster& cluster, Rank rank) {
  const std::int64_t device = static_cast<std::int64_t>(rank.index()) / cluster.ranks_per_device;
  if (cluster.levels.size() < 2) return format("device {}", device);
  return format("{} {}", cluster.levels[0].name, device / cluster.levels[0].units);
}

}  // namespace fourfold::simulate
