#include "search/built_graphs.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/error.h"
#include "plan/balance_stages.h"
#include "plan/pins.h"

namespace fourfold::search {

const graph::ModelGraphs& BuiltGraphs::of(std::int64_t layers, const plan::PlanSpec& spec) {
  const auto b = std::get<plan::Batching>(plan::solve_batching(spec));
  const Batch batch{layers, b.samples(), b.global_batch, b.length, b.chunks};
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Entry>& place = entries_[batch];
    if (!place) place = std::make_unique<Entry>();
    entry = place.get();
  }
  std::call_once(entry->once, [&] { entry->model = question_.build(layers, spec); });
  return entry->model;
}

bool BuiltGraphs::has_equal_layers(const plan::PlanSpec& spec) {
  if (!question_.has_equal_layers || spec.pins.empty()) return question_.has_equal_layers;
  std::call_once(pins_once_, [&] {
    const graph::Graph& train = of(question_.layers, spec).at(op::ProgramKind::train);
    // A model of few layers may have one of that name: some stages have more than the whole model.
    are_pins_alike_ =
        plan::unused_pins(train, spec.pins).empty() && plan::treat_layers_alike(train, spec.pins);
  });
  return are_pins_alike_;
}

std::variant<std::vector<std::int64_t>, plan::Infeasible> BuiltGraphs::last_layers(
    std::int64_t layers, const plan::PlanSpec& spec) {
  require(spec.pipeline.grids.empty(), "all stages have the same grid");
  const std::lock_guard lock(cuts_mutex_);
  const Cut cut{spec.pipeline.stages, spec.pipeline.layers};
  const auto found = cuts_.find(cut);
  if (found != cuts_.end()) return found->second;
  auto made =
      plan::balance_stages(of(layers, spec).at(op::ProgramKind::train), layers, spec.pipeline);
  return cuts_.emplace(cut, std::move(made)).first->second;
}

const BuiltGraphs::MadeStages& BuiltGraphs::few_stages(const plan::PlanSpec& spec,
                                                       const std::function<MadeStages()>& count) {
  StagesOfSpec* its = nullptr;
  {
    const std::lock_guard lock(stages_mutex_);
    const auto known = std::ranges::find(stages_, spec, &StagesOfSpec::spec);
    if (known == stages_.end()) stages_.emplace_back().spec = spec;
    its = known == stages_.end() ? &stages_.back() : &*known;
  }
  std::call_once(its->once, [&] { its->stages = count(); });
  return its->stages;
}

}  // namespace fourfold::search
