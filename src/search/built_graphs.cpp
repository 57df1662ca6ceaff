#include "search/built_graphs.h"

#include <variant>

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

}  // namespace fourfold::search
