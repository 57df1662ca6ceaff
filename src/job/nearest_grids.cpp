#include "job/nearest_grids.h"

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "config/changes.h"
#include "model/model.h"
#include "plan/plan.h"

namespace fourfold::job {
namespace {

constexpr std::size_t most_shown = 3;
/// Grids that are looked at: a small model in a large job has none of nearly as many ranks.
constexpr std::size_t most_tried = 200'000;

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> result;
  for (std::int64_t low = 1; low * low <= number; ++low) {
    if (number % low != 0) continue;
    result.push_back(low);
    if (low != number / low) result.push_back(number / low);
  }
  return result;
}

/// Sum of the logarithms of the axes' ratios: doubling one axis is as far as halving another.
double distance(const plan::Grid& a, const plan::Grid& b) {
  const auto apart = [](std::int64_t x, std::int64_t y) {
    return std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y)));
  };
  return apart(a.x, b.x) + apart(a.y, b.y) + apart(a.z, b.z) + apart(a.data, b.data);
}

/// All grids of so many ranks, the nearest first.
std::vector<plan::Grid> grids_of(std::int64_t ranks, const plan::Grid& wanted) {
  std::vector<plan::Grid> grids;
  plan::Grid grid = wanted;
  for (const std::int64_t x : divisors(ranks))
    for (const std::int64_t y : divisors(ranks / x))
      for (const std::int64_t z : divisors(ranks / x / y)) {
        grid.x = x;
        grid.y = y;
        grid.z = z;
        grid.data = ranks / x / y / z;
        grids.push_back(grid);
      }
  std::ranges::stable_sort(grids, {}, [&](const plan::Grid& g) { return distance(g, wanted); });
  return grids;
}

/// What most grids fail by, without a plan.
bool divides(const config::Config& config, const plan::Grid& grid) {
  const std::int64_t at_once = config.micro_batch_size.value_or(1) * grid.z * grid.data;
  return config.plan.global_batch_size % at_once == 0 &&
         model::stream_width(config.model()) % grid.y == 0;
}

bool works(const config::Config& config, const plan::Grid& grid) {
  plan::PlanSpec spec = config::with_grid(config, grid).plan_spec();
  spec.checkpointing = {};
  if (!std::holds_alternative<plan::Grid>(plan::solve_grid(spec, std::nullopt))) return false;
  const auto batching = plan::solve_batching(spec);
  const auto* b = std::get_if<plan::Batching>(&batching);
  if (b == nullptr) return false;
  const auto graphs =
      model::build(model::smallest_alike(config.model()),
                   {b->samples(), b->length, b->global_batch, config.data.mask_documents,
                    config.data.restart_positions, b->chunks},
                   config.optimizer, model::Writes::samples);
  return std::holds_alternative<plan::PlannedModel>(plan::plan_model(graphs, spec));
}

}  // namespace

std::string nearest_grids(const config::Config& config, std::optional<std::int64_t> ranks) {
  const plan::PipelineSpec& pipeline = config.plan.pipeline;
  if (!pipeline.grids.empty()) return "";
  const std::int64_t wanted = ranks ? *ranks / std::max<std::int64_t>(pipeline.meshes(), 1)
                                    : plan::num_ranks(config.plan.grid);  // of a mesh
  std::vector<std::string> found;
  std::size_t tried = 0;
  for (std::int64_t n = wanted; n >= 1 && tried < most_tried; --n) {
    for (const plan::Grid& grid : grids_of(n, config.plan.grid)) {
      if (found.size() == most_shown) break;
      ++tried;
      if (divides(config, grid) && works(config, grid))
        found.push_back(format("parallel.tensor = {{x: {}, y: {}, z: {}}} with parallel.data = {}",
                               grid.x, grid.y, grid.z, grid.data));
    }
    if (found.size() == most_shown) break;
  }
  return found.empty() ? "" : "\n      nearest grids that work: " + join(found, "; ");
}

}  // namespace fourfold::job
