#include "search/searched_plans.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "plan/derive_shardings.h"
#include "plan/layout_text.h"
#include "plan/plan.h"
#include "search/choose_layout.h"
#include "search/fit_layout.h"

namespace fourfold::search {
namespace {

constexpr const char* searched = "searched";
/// The skip connections of a U-Net make tables of many ops.
constexpr solve::Limits limits{.or_near = true};

/// The layout of the strategy, if it has one on the grid.
std::optional<plan::Layout> strategys_layout(const graph::ModelGraphs& model, plan::PlanSpec spec,
                                             const Mesh& mesh) {
  std::erase_if(spec.pins, [](const plan::Pin& pin) { return pin.is_never_whole; });
  auto made = plan::make_layout(model, spec, mesh);
  if (auto* layout = std::get_if<plan::Layout>(&made)) return std::move(*layout);
  return std::nullopt;
}

/// What a layout makes of a training graph. Two that make the same have one plan.
struct Meaning {
  plan::GraphShardings shardings;
  std::map<std::string, std::pair<op::Sharding, op::Sharding>> parameters;  // rest and moments
  bool operator==(const Meaning&) const = default;
};

Meaning meaning_of(const plan::Layout& layout, const graph::Graph& train, const Mesh& mesh) {
  plan::PersistentShardings persistent = plan::persistent_shardings(train, layout);
  auto derived = plan::derive_shardings(train, mesh, layout, persistent);
  require(std::holds_alternative<plan::GraphShardings>(derived), "the layout is legal");
  Meaning meaning{std::get<plan::GraphShardings>(std::move(derived)), {}};
  for (const auto& [name, parameter] : layout.parameters)
    meaning.parameters[name] = {plan::normal(parameter.rest), plan::normal(parameter.moments)};
  return meaning;
}

/// Searches on one grid.
class GridSearch {
 public:
  GridSearch(const graph::ModelGraphs& model, const plan::PlanSpec& spec, Pricer& pricer,
             std::function<bool(const plan::PlanSpec&)> fits)
      : train_(model.at(op::ProgramKind::train)),
        spec_(spec),
        pricer_(pricer),
        fits_(std::move(fits)),
        mesh_(plan::make_mesh(spec.grid)),
        strategys_(strategys_layout(model, spec, mesh_)),
        start_(strategys_ ? *strategys_ : plan::whole_layout(model, mesh_)) {
    setting_.mesh = &mesh_;
    setting_.groups = groups_in_order(mesh_, spec.grid.order);
    setting_.batching = std::get<plan::Batching>(plan::solve_batching(spec));
    setting_.compute = spec.compute;
    setting_.bucket_bytes = spec.bucket_bytes;
    setting_.overlap = spec.overlap;
    setting_.checkpointing = spec.checkpointing;
    setting_.cached_gathers = spec.cached_gathers;
    setting_.pins = spec.pins;
    setting_.layers_alike = true;
  }

  std::variant<SearchedPlans, plan::Infeasible> run() {
    auto chosen = choose_layouts(train_, start_, setting_, pricer_, solve::usual_solver, limits);
    if (auto* infeasible = std::get_if<plan::Infeasible>(&chosen)) return std::move(*infeasible);
    if (auto* refused = std::get_if<solve::Refused>(&chosen)) found_.refused = refused->reason;
    if (const auto* layouts = std::get_if<std::vector<ChosenLayout>>(&chosen))
      for (const ChosenLayout& one : *layouts) {
        if (has_room(one.layout))
          keep(one.layout);
        else
          too_large_ = std::max(too_large_.value_or(0), one.hidden_share);
      }
    if (too_large_) return add_one_that_fits();
    return std::move(found_);
  }

  std::string problem() const { return layout_problem_text(train_, start_, setting_, pricer_); }

 private:
  plan::PlanSpec with(const plan::Layout& layout) const {
    plan::PlanSpec result = spec_;
    result.strategy = plan::Strategy::searched;
    result.layout = {searched, plan::to_text(layout, train_, mesh_)};
    return result;
  }

  bool has_room(const plan::Layout& layout) const { return fits_(with(layout)); }

  /// For the largest share of those whose layouts need too much: each costs some ten searches.
  std::variant<SearchedPlans, plan::Infeasible> add_one_that_fits() {
    LayoutSetting setting = setting_;
    setting.hidden_share = *too_large_;
    FitOutcome outcome = choose_layout_that_fits(
        train_, start_, setting, pricer_, solve::usual_solver,
        [&](const plan::Layout& layout) { return has_room(layout); }, limits);
    if (auto* infeasible = std::get_if<plan::Infeasible>(&outcome)) return std::move(*infeasible);
    if (auto* refused = std::get_if<solve::Refused>(&outcome)) found_.refused = refused->reason;
    if (const auto* fitted = std::get_if<FittedLayout>(&outcome)) keep(fitted->chosen.layout);
    if (const auto* nothing = std::get_if<NothingFits>(&outcome)) {
      keep(nothing->least.layout);
      found_.cut_in_vain = nothing->cut;
    }
    return std::move(found_);
  }

  void keep(const plan::Layout& layout) {
    if (strategys_ && meaning_of(layout, train_, mesh_) == meaning_of(*strategys_, train_, mesh_)) {
      found_.finds_strategys = true;
      return;
    }
    plan::PlanSpec spec = with(layout);
    if (std::ranges::find(found_.specs, spec) == found_.specs.end())
      found_.specs.push_back(std::move(spec));
  }

  const graph::Graph& train_;
  const plan::PlanSpec& spec_;
  Pricer& pricer_;
  std::function<bool(const plan::PlanSpec&)> fits_;
  Mesh mesh_;
  std::optional<plan::Layout> strategys_;
  plan::Layout start_;  // what a search begins with
  LayoutSetting setting_;
  std::optional<double> too_large_;  // a hidden share
  SearchedPlans found_;
};

}  // namespace

std::string layout_word(const plan::PlanSpec& spec) {
  if (!spec.layout) return std::string(plan::to_string(spec.strategy));
  return spec.strategy == plan::Strategy::searched ? searched : "given";
}

std::variant<SearchedPlans, plan::Infeasible> searched_plans(
    const graph::ModelGraphs& model, const plan::PlanSpec& spec, Pricer& pricer,
    const std::function<bool(const plan::PlanSpec&)>& fits) {
  return GridSearch(model, spec, pricer, fits).run();
}

std::string searched_problem(const graph::ModelGraphs& model, const plan::PlanSpec& spec,
                             Pricer& pricer) {
  return GridSearch(model, spec, pricer, {}).problem();
}

}  // namespace fourfold::search
