#include "search/rank_grids.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/parallel.h"
#include "search/built_graphs.h"
#include "search/choose_meshes.h"
#include "search/count_stages.h"
#include "search/explain.h"
#include "search/price_stages.h"
#include "search/searched_plans.h"
#include "search/simulate_plan.h"

namespace fourfold::search {
namespace {

using machine::AxisGroup;

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> result;
  for (std::int64_t n = 1; n <= number; ++n)
    if (number % n == 0) result.push_back(n);
  return result;
}

/// A grid that each of some stages has.
struct StagesOfGrid {
  std::int64_t stages = 1;
  plan::Grid grid;
};

/// All orders of the axes: the wanted one first, then those that begin as it does.
std::vector<std::vector<std::string>> orders_of(const std::vector<std::string>& wanted) {
  std::vector<std::vector<std::string>> orders;
  std::array<std::size_t, 4> places = {0, 1, 2, 3};
  do {
    std::vector<std::string>& order = orders.emplace_back();
    for (const std::size_t place : places) order.push_back(wanted[place]);
  } while (std::ranges::next_permutation(places).found);
  return orders;
}

/// The stages of a plan under a schedule that goes with its micro-batches.
struct InSchedule {
  pipeline::Schedule schedule = pipeline::Schedule::one_f_one_b;
  std::vector<StageOfPlan> stages;
};

/// What a grid asks of a rank, before it has an order of ranks and a price.
struct CountedGrid {
  PricedPlan plan;
  bool is_legal = false, fits = false;
  std::vector<double> linears;  // AxoNN's volumes, elements by axis
  std::vector<plan::Problem> problems;
  CountedStages stages;  // of a pipeline, as the next one
  /// Those that fit; where none does, the one that needs least.
  std::vector<InSchedule> schedules;
  std::int64_t orders = 0;  // that have been priced
};

/// Equal but for rounding is no better.
constexpr double rounding = 1e-9;

/// Own meshes are found from so many plans of equal meshes, for each number of stages: the best
/// ones of different micro-batches.
constexpr std::size_t equal_looked_at = 2;

/// Counts one grid.
class GridCounter {
 public:
  GridCounter(const Question& question, BuiltGraphs& graphs, double memory_bytes)
      : question_(question), graphs_(graphs), memory_bytes_(memory_bytes) {}

  /// Counts stages that have meshes of their own.
  CountedGrid take(StagesWithMeshes made) {
    plan_.spec = std::move(made.spec);
    plan_.accumulation = std::get<plan::Batching>(plan::solve_batching(plan_.spec)).accumulation;
    plan_.mesh = made.stages.meshes.front();
    result_.stages = std::move(made.stages);
    result_.is_legal = true;
    result_.fits = fits();
    return std::move(result_);
  }

  CountedGrid run(const StagesOfGrid& asked) {
    return run(question_.settle(asked.grid, asked.stages));
  }

  CountedGrid run(plan::PlanSpec spec) {
    plan_.spec = std::move(spec);
    if (!check(plan::solve_grid(plan_.spec, question_.ranks))) return std::move(result_);
    const auto batching = plan::solve_batching(plan_.spec);
    if (!check(batching)) return std::move(result_);
    plan_.accumulation = std::get<plan::Batching>(batching).accumulation;
    plan_.mesh = plan::make_mesh(plan_.spec.grid);
    result_.fits = find_demand();
    return std::move(result_);
  }

 private:
  /// False where there is no plan; its problems are kept.
  template <class T>
  bool check(const std::variant<T, plan::Infeasible>& made) {
    const auto* infeasible = std::get_if<plan::Infeasible>(&made);
    if (infeasible != nullptr) result_.problems = infeasible->problems;
    return infeasible == nullptr;
  }

  /// The kinds of recomputation to look at, the least first.
  std::vector<plan::Checkpointing> checkpointings() const {
    if (!question_.spec.checkpointing.is_auto) return {question_.spec.checkpointing};
    return {{}, {.layers = 1, .keeps_products = true}, {.layers = 1}};
  }

  /// Fills in the demand; true if a rank has as much memory as it needs. Where it is open which
  /// gathered weights stay, none do if they do not fit.
  bool find_demand() {
    const std::optional<std::int64_t> wanted = plan_.spec.cached_gathers;
    for (const plan::Checkpointing& checkpointing : checkpointings())
      for (const auto& cached : {wanted, std::optional<std::int64_t>(0)}) {
        if (wanted && cached != wanted) continue;
        plan_.spec.checkpointing = checkpointing;
        plan_.spec.cached_gathers = cached;
        result_.is_legal = count();
        if (!result_.is_legal) return false;
        if (fits()) return true;
        if (plan_.spec.grid.z == 1) break;  // nothing is gathered on z
      }
    return false;
  }

  /// With a pipeline: under any of the schedules.
  bool fits() {
    if (plan_.spec.pipeline.stages == 1) return plan_.demand.memory.all() <= memory_bytes_;
    result_.schedules.clear();
    InSchedule least;
    double least_bytes = 0;
    for (const pipeline::Schedule schedule : question_.schedules) {
      auto stages = stages_in_schedule(
          result_.stages, {.schedule = schedule, .weight_delay = plan_.spec.pipeline.weight_delay},
          plan_.accumulation);
      if (!stages) continue;
      const double bytes =
          std::ranges::max_element(*stages, {}, &StageOfPlan::memory_bytes)->memory_bytes;
      InSchedule one{schedule, std::move(*stages)};
      if (bytes <= memory_bytes_) result_.schedules.push_back(one);
      if (!least.stages.empty() && least_bytes <= bytes) continue;
      least = std::move(one);
      least_bytes = bytes;
    }
    if (!result_.schedules.empty()) return true;
    plan_.demand = fullest_demand(result_.stages, least.stages);
    result_.schedules.push_back(std::move(least));
    return false;
  }

  /// False where no plan is legal. Where the gathers of some layers alone are kept, numbers lie
  /// between those of none and of all.
  bool count() {
    const std::optional<std::int64_t> cached = plan_.spec.cached_gathers;
    if (plan_.spec.pipeline.stages > 1) return count_pipeline();
    if (!cached || *cached == 0 || *cached >= question_.layers) return count_layers();
    plan_.spec.cached_gathers = question_.layers;
    if (!count_layers()) return false;
    const Demand all = std::move(plan_.demand);
    plan_.spec.cached_gathers = 0;
    count_layers();
    plan_.demand = extrapolated(
        plan_.demand, all, static_cast<double>(*cached) / static_cast<double>(question_.layers));
    plan_.spec.cached_gathers = cached;
    return true;
  }

  bool count_pipeline() {
    auto counted = count_stages(question_, graphs_, plan_.spec);
    if (!check(counted)) return false;
    result_.stages = std::get<CountedStages>(std::move(counted));
    return true;
  }

  bool count_layers() {
    const std::int64_t few = std::max<std::int64_t>(plan_.spec.checkpointing.layers, 1);
    if (plan_.spec.layout || !graphs_.has_equal_layers(plan_.spec) || question_.layers <= 2 * few ||
        question_.layers % few != 0)
      return count_model(question_.layers);
    if (!count_model(few)) return false;
    const Demand small = std::move(plan_.demand);
    const std::vector<double> of_small = result_.linears;
    count_model(2 * few);
    const double times = static_cast<double>(question_.layers - few) / static_cast<double>(few);
    plan_.demand = extrapolated(small, plan_.demand, times);
    for (std::size_t i = 0; i < of_small.size(); ++i)
      result_.linears[i] = of_small[i] + times * (result_.linears[i] - of_small[i]);
    return true;
  }

  bool count_model(std::int64_t layers) {
    const graph::ModelGraphs& model = graphs_.of(layers, plan_.spec);
    const auto made = plan::make_plan(model, plan_.spec);
    if (!check(made)) return false;
    const plan::Plan& plan = std::get<plan::Plan>(made);
    plan_.demand = demand_of(model.at(op::ProgramKind::train), plan);
    std::vector<LinearOnMesh> linears = linears_of(model.at(op::ProgramKind::train), plan);
    const auto chunks = static_cast<double>(plan.batching.chunks);
    for (LinearOnMesh& linear : linears) {
      linear.input_elements *= chunks;
      linear.output_elements *= chunks;
    }
    result_.linears =
        axonn_elements(linears, plan.meshes[0], static_cast<double>(plan_.accumulation));
    return true;
  }

  const Question& question_;
  BuiltGraphs& graphs_;
  double memory_bytes_;
  CountedGrid result_;
  PricedPlan& plan_ = result_.plan;
};

class Ranker {
 public:
  explicit Ranker(const Question& question)
      : question_(question),
        pricer_(*question.cluster,
                *machine::rate_of(question.cluster->device, question.spec.compute),
                question.spec.bucket_bytes) {
    const machine::Cluster& cluster = *question.cluster;
    answer_.memory_bytes =
        cluster.device.memory_bytes / static_cast<double>(cluster.ranks_per_device);
    if (question.spec.memory_limit)
      answer_.memory_bytes =
          std::min(answer_.memory_bytes, static_cast<double>(*question.spec.memory_limit));
  }

  Answer run() {
    std::vector<StagesOfGrid> grids;
    for (const std::int64_t stages : question_.stages)
      if (question_.ranks % stages == 0 && stages <= question_.layers)
        for (plan::Grid& grid : grids_of_ranks(question_.ranks / stages, question_.spec.grid))
          grids.push_back({stages, std::move(grid)});
    if (question_.admits)
      std::erase_if(grids, [&](const StagesOfGrid& one) { return !question_.admits(one.grid); });
    std::vector<CountedGrid> counted(grids.size());
    BuiltGraphs graphs(question_);
    for_each_on_all_cores(grids.size(), [&](std::size_t i) {
      CountedGrid grid = GridCounter(question_, graphs, answer_.memory_bytes).run(grids[i]);
      if (grid.is_legal) choose_order(grid);
      grid.stages = {};
      counted[i] = std::move(grid);
    });
    answer_.grids = static_cast<std::int64_t>(grids.size());
    if (question_.own_meshes) add_own_meshes(graphs, counted);
    add_layouts(graphs, counted);
    for (CountedGrid& grid : counted) {
      note(grid.problems);
      if (!grid.is_legal) continue;
      answer_.orders += grid.orders;
      (grid.fits ? answer_.plans : answer_.too_large).push_back(std::move(grid.plan));
    }
    const auto seconds = [](const PricedPlan& plan) { return plan.price.step(); };
    const auto bytes = [](const PricedPlan& plan) { return plan.demand.memory.all(); };
    std::ranges::stable_sort(answer_.plans, {}, seconds);
    std::ranges::stable_sort(answer_.too_large, {}, bytes);
    return std::move(answer_);
  }

 private:
  /// The best plans of equal meshes, and for each what choose_meshes makes of it. Those of one
  /// shape are one.
  void add_own_meshes(BuiltGraphs& graphs, std::vector<CountedGrid>& counted) {
    std::vector<const PricedPlan*> equal;
    for (const CountedGrid& grid : counted)
      if (grid.is_legal && grid.fits && !grid.schedules.empty()) equal.push_back(&grid.plan);
    std::ranges::stable_sort(equal, {}, [](const PricedPlan* plan) { return plan->price.step(); });
    std::map<std::int64_t, std::set<std::int64_t>> seen_micros;  // by number of stages
    std::erase_if(equal, [&](const PricedPlan* plan) {
      std::set<std::int64_t>& micros = seen_micros[plan->spec.pipeline.stages];
      return micros.size() == equal_looked_at || !micros.insert(plan->accumulation).second;
    });
    std::vector<std::vector<CountedGrid>> found(equal.size());
    for_each_on_all_cores(equal.size(), [&](std::size_t i) {
      for (StagesWithMeshes& made :
           choose_meshes(question_, graphs, pricer_, *equal[i], answer_.memory_bytes)) {
        CountedGrid grid =
            GridCounter(question_, graphs, answer_.memory_bytes).take(std::move(made));
        choose_order(grid);
        grid.stages = {};
        found[i].push_back(std::move(grid));
      }
    });
    std::set<std::string> seen;
    for (std::vector<CountedGrid>& of_one : found)
      for (CountedGrid& grid : of_one)
        if (grid.fits && seen.insert(shape_text(grid.plan.spec)).second) {
          ++answer_.with_own_meshes;
          counted.push_back(std::move(grid));
        }
  }

  /// The axes of a grid in its order of ranks, by size and by whether they divide samples: all that
  /// a search sees of them.
  static std::vector<std::pair<std::int64_t, bool>> kinds_of_axes(const plan::Grid& grid) {
    std::vector<std::pair<std::int64_t, bool>> kinds;
    for (const std::string& axis : grid.order) {
      const std::int64_t size = axis == "x"   ? grid.x
                                : axis == "y" ? grid.y
                                : axis == "z" ? grid.z
                                              : grid.data;
      if (size > 1) kinds.emplace_back(size, axis == "z" || axis == "data");
    }
    return kinds;
  }

  /// The plans of one mesh whose layouts are searched for, on each grid in the order of ranks that
  /// is the best one of the strategy; and the one that is given.
  void add_layouts(BuiltGraphs& graphs, std::vector<CountedGrid>& counted) {
    std::vector<plan::PlanSpec> specs;
    std::vector<std::size_t> of;  // by spec: which of those that are counted
    std::set<std::vector<std::pair<std::int64_t, bool>>> seen;
    for (std::size_t i = 0; i < counted.size(); ++i) {
      const plan::PlanSpec& spec = counted[i].plan.spec;
      if (!question_.searches_layouts || spec.pipeline.stages > 1 ||
          !std::holds_alternative<plan::Batching>(plan::solve_batching(spec)))
        continue;
      // Pins name axes; without them equal meshes have equal layouts.
      if (!seen.insert(kinds_of_axes(spec.grid)).second && spec.pins.empty()) continue;
      specs.push_back(spec);
      of.push_back(i);
    }
    std::vector<std::size_t> cut_in_vain(specs.size());
    std::vector<std::string> refused(specs.size());
    std::vector<std::vector<CountedGrid>> found(specs.size() + 1);
    const auto count = [&](const plan::PlanSpec& spec) {
      CountedGrid grid = GridCounter(question_, graphs, answer_.memory_bytes).run(spec);
      if (grid.is_legal) choose_order(grid, {spec.grid.order});
      return grid;
    };
    for_each_on_all_cores(specs.size(), [&](std::size_t i) {
      const auto fits = [&](const plan::PlanSpec& spec) { return has_room(graphs, spec); };
      auto plans = searched_plans(graphs.of(question_.layers, specs[i]), specs[i], pricer_, fits);
      if (auto* infeasible = std::get_if<plan::Infeasible>(&plans)) {
        found[i].emplace_back().plan.spec = specs[i];
        found[i].back().problems = std::move(infeasible->problems);
        return;
      }
      const auto& searched = std::get<SearchedPlans>(plans);
      for (const plan::PlanSpec& spec : searched.specs) found[i].push_back(count(spec));
      counted[of[i]].plan.is_searched_too = searched.finds_strategys;
      cut_in_vain[i] = searched.cut_in_vain;
      refused[i] = searched.refused;
    });
    for (const std::string& why : refused) {
      if (why.empty()) continue;
      ++answer_.not_searched;
      answer_.not_searched_as = why;
    }
    for (const std::size_t cut : cut_in_vain)
      answer_.cut_in_vain = std::max(answer_.cut_in_vain, cut);
    if (question_.given) found.back().push_back(count(*question_.given));
    for (std::vector<CountedGrid>& of_one : found)
      for (CountedGrid& grid : of_one) {
        answer_.with_layouts += grid.fits ? 1 : 0;
        counted.push_back(std::move(grid));
      }
  }

  /// True if a rank has the memory that the programs of a spec need; by closed form where they
  /// cannot be compiled.
  bool has_room(BuiltGraphs& graphs, const plan::PlanSpec& spec) const {
    const CountedGrid counted = GridCounter(question_, graphs, answer_.memory_bytes).run(spec);
    // Closed forms say the least that any placement needs.
    if (!counted.fits || !question_.compile) return counted.fits;
    // What is far below the memory has room; programs need little more than closed forms say.
    constexpr double surely = 0.8;
    if (counted.plan.expected_bytes() <= surely * answer_.memory_bytes) return true;
    return static_cast<double>(bytes_of_rank(question_.compile(counted.plan.spec))) <=
           answer_.memory_bytes;
  }

  /// Keeps a problem of each kind.
  void note(const std::vector<plan::Problem>& problems) {
    for (const plan::Problem& problem : problems)
      if (std::ranges::none_of(answer_.problems, [&](const plan::Problem& other) {
            return other.index() == problem.index();
          }))
        answer_.problems.push_back(problem);
  }

  void choose_order(CountedGrid& grid) {
    std::vector<std::vector<std::string>> orders = orders_of(question_.spec.grid.order);
    if (question_.keeps_order) orders.resize(1);
    choose_order(grid, orders);
  }

  void choose_order(CountedGrid& grid, const std::vector<std::vector<std::string>>& orders) {
    PricedPlan& priced = grid.plan;
    std::set<std::vector<std::int64_t>> seen;
    PricedOrder plain;
    bool is_first = true;
    const std::vector<Mesh> meshes =
        grid.schedules.empty() ? std::vector<Mesh>{priced.mesh} : grid.stages.meshes;
    for (const auto& order : orders) {
      GroupsOfMeshes groups;
      std::vector<std::int64_t> strides;
      for (const Mesh& mesh : meshes) {
        groups.push_back(groups_in_order(mesh, order));
        for (const AxisGroup& group : groups.back())
          strides.push_back(group.ranks > 1 ? group.stride : 0);
      }
      if (!seen.insert(strides).second) continue;
      ++grid.orders;
      OrderOfGrid found = priced_in_order(grid, groups);
      if (is_first || found.price.all() < (1 - rounding) * plain.price.all())
        plain = {order, found.price, found.linears_s};
      if (!is_first && found.price.step() >= (1 - rounding) * priced.price.step()) continue;
      is_first = false;
      priced.price = std::move(found.price);
      set_order(priced.spec, order);
      priced.linears_s = found.linears_s;
      take_schedule(grid, found);
    }
    if (plain.price.all() < priced.price.all()) priced.plain_order = std::move(plain);
  }

  /// What a grid takes in one order; of a pipeline in the best of its schedules.
  struct OrderOfGrid {
    Price price;
    double linears_s = 0;
    std::size_t schedule = 0;         // of those of the grid
    std::vector<Price> of_schedules;  // by schedule of the grid
  };
  OrderOfGrid priced_in_order(const CountedGrid& grid, const GroupsOfMeshes& groups) {
    const PricedPlan& priced = grid.plan;
    if (grid.schedules.empty())
      return {pricer_.price(priced.demand, groups.front()),
              seconds_of_linears(priced, grid.linears, groups.front()),
              0,
              {}};
    const TimedStages timed =
        time_stages(grid.stages, pricer_, groups, priced.spec, priced.accumulation);
    OrderOfGrid best;
    for (std::size_t i = 0; i < grid.schedules.size(); ++i) {
      Price price =
          price_of_stages(grid.stages, timed, grid.schedules[i].schedule, priced.accumulation);
      best.of_schedules.push_back(price);
      if (i > 0 && price.step() >= (1 - rounding) * best.price.step()) continue;
      best.price = std::move(price);
      best.schedule = i;
    }
    for (const CountedStage& kind : grid.stages.kinds)
      best.linears_s =
          std::max(best.linears_s, seconds_of_linears(priced, kind.linears, groups[kind.mesh]));
    return best;
  }

  /// The stages, memory and spec of a pipeline in the schedule that was found, and the best one
  /// beside it.
  static void take_schedule(CountedGrid& grid, OrderOfGrid& found) {
    if (grid.schedules.empty()) return;
    PricedPlan& priced = grid.plan;
    const InSchedule& chosen = grid.schedules[found.schedule];
    priced.stages = chosen.stages;
    priced.spec.pipeline.schedule = chosen.schedule;
    priced.demand = fullest_demand(grid.stages, chosen.stages);
    priced.other_schedule.reset();
    for (std::size_t i = 0; i < grid.schedules.size(); ++i) {
      const InSchedule& other = grid.schedules[i];
      const Price& price = found.of_schedules[i];
      if (i == found.schedule ||
          (priced.other_schedule && priced.other_schedule->price.step() <= price.step()))
        continue;
      priced.other_schedule = {other.schedule, other.stages,
                               fullest_demand(grid.stages, other.stages), price};
    }
  }

  double seconds_of_linears(const PricedPlan& plan, const std::vector<double>& linears,
                            const std::vector<AxisGroup>& groups) {
    double seconds = 0;
    for (std::size_t axis = 0; axis < linears.size(); ++axis)
      if (linears[axis] > 0)
        seconds += linears[axis] * static_cast<double>(size_bytes(plan.spec.compute)) /
                   pricer_.bytes_per_s(groups[axis]);
    return seconds;
  }

  const Question& question_;
  Pricer pricer_;
  Answer answer_;
};

}  // namespace

std::vector<plan::Grid> grids_of_ranks(std::int64_t ranks, const plan::Grid& like) {
  std::vector<plan::Grid> grids;
  for (const std::int64_t x : divisors(ranks))
    for (const std::int64_t y : divisors(ranks / x))
      for (const std::int64_t z : divisors(ranks / x / y)) {
        plan::Grid grid = like;
        grid.x = x;
        grid.y = y;
        grid.z = z;
        grid.data = ranks / x / y / z;
        grids.push_back(std::move(grid));
      }
  return grids;
}

void set_order(plan::PlanSpec& spec, const std::vector<std::string>& order) {
  spec.grid.order = order;
  for (plan::Grid& grid : spec.pipeline.grids) grid.order = order;
}

Answer rank_grids(const Question& question) {
  require(question.cluster != nullptr && question.ranks <= question.cluster->ranks(),
          "the cluster has the ranks");
  require(machine::rate_of(question.cluster->device, question.spec.compute) != nullptr,
          "the device has a rate for the type of the computation");
  return Ranker(question).run();
}

std::vector<Linear> linears_of_step(const Question& question, const PricedPlan& priced) {
  const graph::ModelGraphs model = question.build(question.layers, priced.spec);
  const auto plan = std::get<plan::Plan>(plan::make_plan(model, priced.spec));
  const auto times = static_cast<double>(priced.accumulation * plan.batching.chunks);
  std::vector<Linear> linears;
  for (const LinearOnMesh& linear : linears_of(model.at(op::ProgramKind::train), plan)) {
    const auto& [m, k, n, is_transposed] = linear.sizes;
    linears.push_back({times * m, k, n, linears.size() % 2 == 1});
  }
  return linears;
}

}  // namespace fourfold::search
