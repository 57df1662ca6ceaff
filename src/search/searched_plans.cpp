#include "search/searched_plans.h"

#include <utility>
#include <variant>

#include "plan/layout_text.h"
#include "plan/plan.h"
#include "search/choose_layout.h"

namespace fourfold::search {
namespace {

constexpr const char* searched = "searched";

}  // namespace

std::string layout_word(const plan::PlanSpec& spec) {
  if (!spec.layout) return std::string(plan::to_string(spec.strategy));
  return spec.strategy == plan::Strategy::searched ? searched : "given";
}

std::vector<plan::PlanSpec> searched_plans(const graph::ModelGraphs& model,
                                           const plan::PlanSpec& spec, Pricer& pricer) {
  const graph::Graph& train = model.at(op::ProgramKind::train);
  const Mesh mesh = plan::make_mesh(spec.grid);
  const auto made = plan::make_layout(model, spec, mesh);
  const auto* strategy = std::get_if<plan::Layout>(&made);
  const plan::Layout start = strategy != nullptr ? *strategy : plan::whole_layout(model, mesh);
  const LayoutSetting setting{&mesh,
                              groups_in_order(mesh, spec.grid.order),
                              std::get<plan::Batching>(plan::solve_batching(spec)),
                              spec.compute,
                              spec.bucket_bytes,
                              {}};
  const auto found = choose_layout(train, start, setting, pricer, solve::usual_solver);
  const auto* chosen = std::get_if<ChosenLayout>(&found);
  if (chosen == nullptr || (strategy != nullptr && chosen->layout == *strategy)) return {};
  plan::PlanSpec result = spec;
  result.strategy = plan::Strategy::searched;
  result.layout = {searched, plan::to_text(chosen->layout, train, mesh)};
  return {std::move(result)};
}

}  // namespace fourfold::search
