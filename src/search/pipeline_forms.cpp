#include "search/pipeline_forms.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace fourfold::search {
namespace {

using pipeline::Costs;
using pipeline::EdgeCost;
using pipeline::Schedule;
using pipeline::StageCost;

double backward_of(const StageCost& stage) {
  return stage.backward_s + stage.weight_backward_s;
}

/// What passes from each stage to the next one.
std::vector<EdgeCost> between_neighbours(const Costs& costs) {
  std::vector<EdgeCost> result(costs.stages.size());
  for (std::size_t i = 0; i < costs.edges.size(); ++i) {
    if (costs.edges[i].to != costs.edges[i].from + 1) continue;
    result[costs.edges[i].from].forward_s += costs.of_edges[i].forward_s;
    result[costs.edges[i].from].backward_s += costs.of_edges[i].backward_s;
  }
  return result;
}

struct Slowest {
  double forward_s = 0, backward_s = 0, message_s = 0;
};
/// The slowest task or message of either pass, and the slowest message of both.
Slowest slowest_of(const Costs& costs) {
  Slowest result;
  for (const StageCost& stage : costs.stages) {
    result.forward_s = std::max(result.forward_s, stage.forward_s);
    result.backward_s = std::max(result.backward_s, backward_of(stage));
  }
  for (const EdgeCost& edge : costs.of_edges) {
    result.forward_s = std::max(result.forward_s, edge.forward_s);
    result.backward_s = std::max(result.backward_s, edge.backward_s);
    result.message_s = std::max({result.message_s, edge.forward_s, edge.backward_s});
  }
  return result;
}

/// The slowest circle over some stages in a row, of which the first one is `ahead` micro-batches
/// further for each.
double slowest_circle(const Costs& costs, double ahead) {
  const std::vector<EdgeCost> messages = between_neighbours(costs);
  double slowest = 0;
  for (std::size_t first = 0; first < costs.stages.size(); ++first) {
    double there_and_back = 0, under_way = 1;
    for (std::size_t last = first; last < costs.stages.size(); ++last) {
      there_and_back += costs.stages[last].forward_s + backward_of(costs.stages[last]);
      slowest = std::max(slowest, there_and_back / under_way);
      there_and_back += messages[last].forward_s + messages[last].backward_s;
      under_way += ahead;
    }
  }
  return slowest;
}

}  // namespace

double period_seconds(const Costs& costs, Schedule schedule) {
  require(schedule != Schedule::interleaved, "each stage has a mesh to itself");
  const Slowest slowest = slowest_of(costs);
  if (schedule == Schedule::gpipe) return slowest.forward_s + slowest.backward_s;
  const double ahead = schedule == Schedule::eager_one_f_one_b ? 2 : 1;
  return std::max(slowest.message_s, slowest_circle(costs, ahead));
}

double pipeline_seconds(const Costs& costs, Schedule schedule, std::int64_t micros) {
  double alone = 0;
  for (const StageCost& stage : costs.stages) alone += stage.forward_s + backward_of(stage);
  for (const EdgeCost& edge : between_neighbours(costs)) alone += edge.forward_s + edge.backward_s;
  return alone + static_cast<double>(micros - 1) * period_seconds(costs, schedule);
}

}  // namespace fourfold::search
