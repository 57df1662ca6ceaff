#include "search/searched_plans.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/layout_text.h"
#include "plan/plan.h"
#include "search/choose_layout.h"
#include "search/fit_layout.h"

namespace fourfold::search {
namespace {

constexpr const char* searched = "searched";

/// The layout that a search begins with: the strategy's, if it has one.
plan::Layout first_layout(const graph::ModelGraphs& model, plan::PlanSpec spec, const Mesh& mesh) {
  std::erase_if(spec.pins, [](const plan::Pin& pin) { return pin.is_never_whole; });
  const auto made = plan::make_layout(model, spec, mesh);
  const auto* layout = std::get_if<plan::Layout>(&made);
  return layout != nullptr ? *layout : plan::whole_layout(model, mesh);
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
        start_(first_layout(model, spec, mesh_)) {
    setting_.mesh = &mesh_;
    setting_.groups = groups_in_order(mesh_, spec.grid.order);
    setting_.batching = std::get<plan::Batching>(plan::solve_batching(spec));
    setting_.compute = spec.compute;
    setting_.bucket_bytes = spec.bucket_bytes;
    setting_.overlap = spec.overlap;
    setting_.pins = spec.pins;
    setting_.layers_alike = true;
  }

  std::variant<std::vector<plan::PlanSpec>, plan::Infeasible> run() {
    auto chosen = choose_layouts(train_, start_, setting_, pricer_, solve::usual_solver);
    if (auto* infeasible = std::get_if<plan::Infeasible>(&chosen)) return std::move(*infeasible);
    if (const auto* layouts = std::get_if<std::vector<ChosenLayout>>(&chosen))
      for (const ChosenLayout& one : *layouts) {
        if (has_room(one.layout))
          keep(one.layout);
        else
          too_large_ = one.hidden_share;
      }
    if (too_large_) return add_one_that_fits();
    return std::move(specs_);
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
  std::variant<std::vector<plan::PlanSpec>, plan::Infeasible> add_one_that_fits() {
    LayoutSetting setting = setting_;
    setting.hidden_share = *too_large_;
    FitOutcome outcome =
        choose_layout_that_fits(train_, start_, setting, pricer_, solve::usual_solver,
                                [&](const plan::Layout& layout) { return has_room(layout); });
    if (auto* infeasible = std::get_if<plan::Infeasible>(&outcome)) return std::move(*infeasible);
    if (const auto* fitted = std::get_if<FittedLayout>(&outcome)) keep(fitted->chosen.layout);
    if (const auto* nothing = std::get_if<NothingFits>(&outcome)) keep(nothing->least.layout);
    return std::move(specs_);
  }

  void keep(const plan::Layout& layout) {
    plan::PlanSpec spec = with(layout);
    if (layout != start_ && std::ranges::find(specs_, spec) == specs_.end())
      specs_.push_back(std::move(spec));
  }

  const graph::Graph& train_;
  const plan::PlanSpec& spec_;
  Pricer& pricer_;
  std::function<bool(const plan::PlanSpec&)> fits_;
  Mesh mesh_;
  plan::Layout start_;
  LayoutSetting setting_;
  std::optional<double> too_large_;  // a hidden share
  std::vector<plan::PlanSpec> specs_;
};

}  // namespace

std::string layout_word(const plan::PlanSpec& spec) {
  if (!spec.layout) return std::string(plan::to_string(spec.strategy));
  return spec.strategy == plan::Strategy::searched ? searched : "given";
}

std::variant<std::vector<plan::PlanSpec>, plan::Infeasible> searched_plans(
    const graph::ModelGraphs& model, const plan::PlanSpec& spec, Pricer& pricer,
    const std::function<bool(const plan::PlanSpec&)>& fits) {
  return GridSearch(model, spec, pricer, fits).run();
}

std::string searched_problem(const graph::ModelGraphs& model, const plan::PlanSpec& spec,
                             Pricer& pricer) {
  return GridSearch(model, spec, pricer, {}).problem();
}

}  // namespace fourfold::search
