#include "search/choose_meshes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "pipeline/order.h"
#include "plan/balance_stages.h"
#include "search/built_graphs.h"
#include "search/divide_ranks.h"
#include "search/price_stages.h"

namespace fourfold::search {
namespace {

/// With more stages each is a small part of the model, and equal ranks are near what is best.
constexpr std::int64_t most_stages = 16;
/// So many ranks are divided in every way, and have every grid.
constexpr std::int64_t few_ranks = 16;
/// So many divisions are looked at for a plan, of few ranks and of more.
constexpr std::size_t most_divisions_of_few = 4, most_divisions = 2;
/// A division is worth a look where its work in a step is as much less than with equal meshes.
constexpr double least_gain = 0.01;

std::int64_t replicas_of(const plan::Grid& grid) {
  return grid.z * grid.data;
}

class MeshChooser {
 public:
  MeshChooser(const Question& question, BuiltGraphs& graphs, Pricer& pricer,
              const PricedPlan& equal, double memory_bytes)
      : question_(question),
        graphs_(graphs),
        pricer_(pricer),
        equal_(equal),
        memory_bytes_(memory_bytes) {}

  std::vector<StagesWithMeshes> run() {
    std::vector<StagesWithMeshes> result;
    if (equal_.spec.pipeline.stages > most_stages) return result;
    for (const std::int64_t samples : numbers_of_samples()) {
      samples_ = samples;
      micros_ = equal_.spec.global_batch_size / samples;
      counted_.clear();
      seen_.clear();
      for (const Division& division : divisions())
        if (auto chosen = with(division)) result.push_back(std::move(*chosen));
    }
    return result;
  }

 private:
  /// Samples of a micro-batch over all ranks of a mesh: those of the plan, and of a few ranks all
  /// that a first mesh may have.
  std::set<std::int64_t> numbers_of_samples() const {
    const plan::PlanSpec& spec = equal_.spec;
    std::set<std::int64_t> numbers = {spec.micro_batch_size * replicas_of(spec.grid)};
    if (question_.ranks > few_ranks) return numbers;
    for (const std::int64_t ranks : choices())
      for (const plan::Grid& grid : grids_of_ranks(ranks, spec.grid))
        numbers.insert(question_.settle(grid, spec.pipeline.stages).micro_batch_size *
                       replicas_of(grid));
    std::erase_if(numbers,
                  [&](std::int64_t samples) { return spec.global_batch_size % samples != 0; });
    return numbers;
  }

  /// The best ones; of large jobs those that gain something.
  std::vector<Division> divisions() {
    const plan::PipelineSpec& pipeline = equal_.spec.pipeline;
    DivisionSpec spec{
        .work_before = plan::flops_before(
            graphs_.of(question_.layers, equal_.spec).at(op::ProgramKind::train), question_.layers),
        .stages = static_cast<std::size_t>(pipeline.stages),
        .ranks = question_.ranks,
        .micros = micros_,
        .layers = pipeline.layers,
        .choices = choices()};
    std::erase_if(spec.choices, [&](std::int64_t ranks) { return !have_grid(ranks); });
    if (question_.ranks <= few_ranks) return best_divisions(spec, most_divisions_of_few);
    std::vector<Division> best = best_divisions(spec, most_divisions);
    spec.choices = {question_.ranks / pipeline.stages};
    const double equal = best_divisions(spec, 1).at(0).step_work(spec.micros);
    std::erase_if(best, [&](const Division& division) {
      return division.step_work(spec.micros) > (1 - least_gain) * equal;
    });
    return best;
  }

  /// How many ranks a stage may have: any of few, else simple multiples of an equal share.
  std::vector<std::int64_t> choices() const {
    const std::int64_t stages = equal_.spec.pipeline.stages, most = question_.ranks - stages + 1,
                       share = question_.ranks / stages;
    std::vector<std::int64_t> result;
    if (question_.ranks <= few_ranks) {
      for (std::int64_t ranks = 1; ranks <= most; ++ranks) result.push_back(ranks);
      return result;
    }
    constexpr std::array<std::int64_t, 8> quarters = {1, 2, 3, 4, 6, 8, 12, 16};
    for (const std::int64_t quarter : quarters)
      if (share * quarter % 4 == 0 && share * quarter / 4 <= most)
        result.push_back(share * quarter / 4);
    return result;
  }

  /// True if so many ranks have a grid that divides the model and its samples.
  bool have_grid(std::int64_t ranks) {
    std::vector<std::int64_t> layers;
    for (const StageOfPlan& stage : equal_.stages) layers.push_back(stage.layers);
    return std::ranges::any_of(
        grids_of(ranks), [&](const plan::Grid& grid) { return count(layers, grid) != nullptr; });
  }

  /// Nothing where a stage has no grid that fits, or all have the grid and the layers of the plan.
  std::optional<StagesWithMeshes> with(const Division& division) {
    StagesWithMeshes chosen{equal_.spec, {}};
    plan::PipelineSpec& pipeline = chosen.spec.pipeline;
    pipeline.layers = division.layers;
    std::vector<const CountedStages*> of_stages;
    for (std::size_t stage = 0; stage < division.ranks.size(); ++stage) {
      const auto best = best_grid(division, stage);
      if (!best) return std::nullopt;
      pipeline.grids.push_back(best->grid);
      of_stages.push_back(best->stages);
    }
    const bool are_equal = std::ranges::all_of(
        pipeline.grids, [&](const plan::Grid& grid) { return grid == pipeline.grids.front(); });
    if (are_equal || !seen_.emplace(division.layers, sizes_of(pipeline.grids)).second)
      return std::nullopt;
    chosen.spec.grid = pipeline.grids.front();
    chosen.spec.micro_batch_size = samples_ / replicas_of(chosen.spec.grid);
    chosen.stages = with_own_meshes(of_stages);
    return chosen;
  }

  struct GridOfStage {
    plan::Grid grid;
    const CountedStages* stages = nullptr;
  };
  std::optional<GridOfStage> best_grid(const Division& division, std::size_t stage) {
    std::optional<GridOfStage> best;
    double best_s = 0;
    for (const plan::Grid& grid : grids_of(division.ranks[stage])) {
      if (stage == 0 && !has_same_samples(grid)) continue;
      const CountedStages* counted = count(division.layers, grid);
      if (counted == nullptr) continue;
      const Demand& demand = counted->demand_of(stage);
      const std::int64_t in_flight = pipeline::most_in_flight(
          pipeline::Schedule::one_f_one_b, {stage, division.ranks.size()}, micros_);
      if (with_in_flight(demand, in_flight, micros_).memory.all() > memory_bytes_) continue;
      const GroupsOfMeshes groups = groups_of_stages(*counted, grid.order);
      const double seconds = pricer_.price(demand, groups.front()).step();
      if (best && seconds >= best_s) continue;
      best = GridOfStage{grid, counted};
      best_s = seconds;
    }
    return best;
  }

  std::vector<plan::Grid> grids_of(std::int64_t ranks) const {
    std::vector<plan::Grid> result;
    for (plan::Grid grid : grids_of_ranks(ranks, equal_.spec.grid)) {
      grid.order = equal_.spec.grid.order;
      const bool may_be = samples_ % replicas_of(grid) == 0 && is_near(grid) &&
                          (!question_.admits || question_.admits(grid));
      if (may_be) result.push_back(std::move(grid));
    }
    return result;
  }

  /// True if the question settles the same micro-batches where the first mesh has this grid.
  bool has_same_samples(const plan::Grid& grid) const {
    const plan::PlanSpec settled = question_.settle(grid, equal_.spec.pipeline.stages);
    return settled.micro_batch_size * replicas_of(grid) == samples_;
  }

  bool is_near(const plan::Grid& grid) const {
    const plan::Grid& equal = equal_.spec.grid;
    const int others = (grid.x != equal.x ? 1 : 0) + (grid.y != equal.y ? 1 : 0) +
                       (grid.z != equal.z ? 1 : 0) + (grid.data != equal.data ? 1 : 0);
    return plan::num_ranks(grid) <= few_ranks || others <= 1;
  }

  /// All stages with such layers and this grid; null where that is no plan.
  const CountedStages* count(const std::vector<std::int64_t>& layers, const plan::Grid& grid) {
    const auto [place, is_new] = counted_.try_emplace({layers, sizes_of({grid})});
    if (!is_new) return place->second ? &*place->second : nullptr;
    plan::PlanSpec spec = equal_.spec;
    spec.grid = grid;
    spec.micro_batch_size = samples_ / replicas_of(grid);
    spec.pipeline.layers = layers;
    const auto problem = plan::solve_grid(spec, std::nullopt);
    if (std::holds_alternative<plan::Infeasible>(problem)) return nullptr;
    auto made = count_stages(question_, graphs_, spec);
    if (auto* stages = std::get_if<CountedStages>(&made)) place->second = std::move(*stages);
    return place->second ? &*place->second : nullptr;
  }

  static std::vector<std::int64_t> sizes_of(const std::vector<plan::Grid>& grids) {
    std::vector<std::int64_t> sizes;
    for (const plan::Grid& grid : grids)
      for (const std::int64_t size : {grid.x, grid.y, grid.z, grid.data}) sizes.push_back(size);
    return sizes;
  }

  const Question& question_;
  BuiltGraphs& graphs_;
  Pricer& pricer_;
  const PricedPlan& equal_;
  double memory_bytes_;
  std::int64_t samples_ = 1, micros_ = 1;  // of a micro-batch, and how many of these
  /// By layers of the stages and sizes of a grid, or of all grids.
  using Key = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<Key, std::optional<CountedStages>> counted_;
  std::set<Key> seen_;
};

}  // namespace

std::vector<StagesWithMeshes> choose_meshes(const Question& question, BuiltGraphs& graphs,
                                            Pricer& pricer, const PricedPlan& equal,
                                            double memory_bytes) {
  return MeshChooser(question, graphs, pricer, equal, memory_bytes).run();
}

}  // namespace fourfold::search
