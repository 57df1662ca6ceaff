#include "plan/balance_stages.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "plan/make_mesh.h"
#include "plan/split_stages.h"

namespace fourfold::plan {

std::vector<double> flops_before(const graph::Graph& train, std::int64_t layers) {
  std::vector<double> sums(static_cast<std::size_t>(layers) + 1, 0.0);
  const std::vector<std::int64_t> layers_of = layers_of_nodes(train);
  for (std::size_t i = 0; i < train.nodes.size(); ++i) {
    const graph::Node& node = train.nodes[i];
    if (node.phase == graph::Phase::update) continue;
    sums[static_cast<std::size_t>(layers_of[i]) + 1] += graph::flops_of(train, node);
  }
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  return sums;
}

namespace {

/// The best ways to give the first layers to the first stages, a stage more at a time.
class Balance {
 public:
  Balance(std::vector<double> before, std::vector<double> ranks)
      : before_(std::move(before)), ranks_(std::move(ranks)) {}

  std::vector<std::int64_t> last_layers() {
    const std::size_t stages = ranks_.size(), layers = before_.size() - 1;
    std::vector<double> slowest(layers + 1, std::numeric_limits<double>::infinity());
    slowest[0] = 0;
    std::vector<std::vector<std::size_t>> begins(stages);  // of a stage, by where it ends
    for (std::size_t stage = 0; stage < stages; ++stage)
      slowest = with_stage(stage, slowest, begins[stage]);
    std::vector<std::int64_t> last;
    for (std::size_t stage = stages, end = layers; stage-- > 1;) {
      end = begins[stage][end];
      last.push_back(static_cast<std::int64_t>(end) - 1);
    }
    std::ranges::reverse(last);
    return last;
  }

 private:
  std::vector<double> with_stage(std::size_t stage, const std::vector<double>& slowest_before,
                                 std::vector<std::size_t>& begins) const {
    const std::size_t layers = before_.size() - 1;
    std::vector<double> slowest(layers + 1, std::numeric_limits<double>::infinity());
    begins.assign(layers + 1, 0);
    for (std::size_t end = stage + 1; end <= layers; ++end)
      for (std::size_t begin = stage; begin < end; ++begin) {
        const double own = (before_[end] - before_[begin]) / ranks_[stage],
                     most = std::max(slowest_before[begin], own);
        if (most >= slowest[end]) continue;
        slowest[end] = most;
        begins[end] = begin;
      }
    return slowest;
  }

  std::vector<double> before_, ranks_;
};

}  // namespace

std::variant<std::vector<std::int64_t>, Infeasible> balance_stages(const graph::Graph& train,
                                                                   std::int64_t layers,
                                                                   const PipelineSpec& spec) {
  const Infeasible uneven{{UnevenLayers{spec.stages, layers, spec.layers}}};
  if (spec.stages > layers) return uneven;
  const auto stages = static_cast<std::size_t>(spec.stages);
  if (spec.layers.empty()) {
    std::vector<double> ranks(stages, 1.0);
    for (std::size_t stage = 0; stage < stages && !spec.grids.empty(); ++stage)
      ranks[stage] = static_cast<double>(num_ranks(spec.grids[stage % spec.grids.size()]));
    return Balance(flops_before(train, layers), std::move(ranks)).last_layers();
  }
  const std::int64_t sum = std::reduce(spec.layers.begin(), spec.layers.end());
  if (spec.layers.size() != stages || sum != layers || std::ranges::min(spec.layers) < 1)
    return uneven;
  std::vector<std::int64_t> last;
  std::int64_t end = 0;
  for (std::size_t stage = 0; stage + 1 < stages; ++stage)
    last.push_back((end += spec.layers[stage]) - 1);
  return last;
}

}  // namespace fourfold::plan
