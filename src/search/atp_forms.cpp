#include "search/atp_forms.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace fourfold::search {
namespace {

bool is_measured(const machine::Cluster& cluster, std::int64_t d1, std::int64_t d2) {
  const auto is_known = [&](std::int64_t ranks, std::int64_t stride) {
    return ranks == 1 || cluster.measured(Collective::all_reduce, ranks, stride) != nullptr;
  };
  return d1 * d2 > 1 && is_known(d1, d2) && is_known(d2, 1);
}

}  // namespace

AtpElements atp_elements(double d1, double d2, double hidden, AtpCore core) {
  return {(core == AtpCore::all_reduced ? 14 : 12) * hidden / d1, 4 * hidden / d2};
}

double atp_seconds(const AtpModel& model, double d1, double d2, const machine::AtpBandwidths& rates,
                   AtpCore core) {
  const AtpElements each = atp_elements(d1, d2, model.hidden, core);
  const double tokens = model.batch * model.length * model.layers * model.element_bytes;
  return tokens * (each.second / rates.all_reduce2 + each.first / rates.all_reduce1);
}

double atp_seconds_at_one_rate(const AtpModel& model, double d1, double d2, double group) {
  return 2 * model.layers * model.batch * model.length * model.hidden * model.element_bytes /
         group * (14 * d2 + 4 * d1 - 18) / (d1 * d2);
}

double megatron_seconds(const AtpModel& model, double all_reduce_rate) {
  return 4 * model.layers * model.batch * model.length * model.hidden * model.element_bytes /
         all_reduce_rate;
}

double atp_seconds_with_latency(const AtpModel& model, double d1, double d2,
                                const machine::AtpBandwidths& rates, AtpCore core,
                                double latency_s) {
  constexpr double all_reduces = 4, gathers = 2;
  const double starts = all_reduces * 2 * std::log2(d1 * d2) + gathers * std::log2(d2);
  return atp_seconds(model, d1, d2, rates, core) + model.layers * starts * latency_s;
}

std::vector<std::pair<std::int64_t, std::int64_t>> atp_meshes(std::int64_t ranks) {
  std::vector<std::pair<std::int64_t, std::int64_t>> meshes;
  for (std::int64_t d2 = 1; d2 <= ranks; ++d2)
    if (ranks % d2 == 0) meshes.emplace_back(ranks / d2, d2);
  return meshes;
}

std::int64_t best_atp(const machine::Cluster& cluster, std::int64_t ranks, AtpCore core) {
  auto meshes = atp_meshes(ranks);
  const auto measured = [&](const auto& mesh) {
    return is_measured(cluster, mesh.first, mesh.second);
  };
  if (std::ranges::any_of(meshes, measured)) std::erase_if(meshes, std::not_fn(measured));
  const auto seconds = [&](const std::pair<std::int64_t, std::int64_t>& mesh) {
    const auto& [d1, d2] = mesh;
    return atp_seconds({}, static_cast<double>(d1), static_cast<double>(d2),
                       machine::atp_bandwidths(cluster, d1, d2), core);
  };
  return std::ranges::min_element(meshes, {}, seconds)->second;
}

double best_second_dim(double ranks) {
  return std::sqrt(2 * ranks / 7);
}

}  // namespace fourfold::search
