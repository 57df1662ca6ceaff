// What many grids of a question have in common, each made once: training graphs, which depend on
// the batch alone, cuts into stages, and stages of few layers.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "search/count_stages.h"
#include "search/rank_grids.h"

namespace fourfold::search {

/// May be asked from several threads. The question must outlive it.
class BuiltGraphs {
 public:
  explicit BuiltGraphs(const Question& question) : question_(question) {}

  /// The graphs of a model of so many layers for the batching of a spec, which has one.
  const graph::ModelGraphs& of(std::int64_t layers, const plan::PlanSpec& spec);

  /// True if a model of fewer layers asks for less in proportion: the question's layers are equal,
  /// and its pins say the same of each.
  bool has_equal_layers(const plan::PlanSpec& spec);

  /// plan::balance_stages of such a model, which does not depend on the batch: found once for each
  /// number of stages of equal grids, and numbers of layers that are given.
  std::variant<std::vector<std::int64_t>, plan::Infeasible> last_layers(std::int64_t layers,
                                                                        const plan::PlanSpec& spec);

  /// What `count` says of a spec.
  using MadeStages = std::variant<FewStages, plan::Infeasible>;
  const MadeStages& few_stages(const plan::PlanSpec& spec,
                               const std::function<MadeStages()>& count);

 private:
  struct Entry {
    std::once_flag once;
    graph::ModelGraphs model;
  };
  /// Layers; samples of a micro-batch over all ranks and of a step; tokens of a sample; chunks.
  using Batch = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

  const Question& question_;
  std::mutex mutex_;  // of the map
  std::map<Batch, std::unique_ptr<Entry>> entries_;
  std::once_flag pins_once_;
  bool are_pins_alike_ = true;  // on all layers
  std::mutex cuts_mutex_;
  /// Stages, and what is given of their layers.
  using Cut = std::pair<std::int64_t, std::vector<std::int64_t>>;
  std::map<Cut, std::variant<std::vector<std::int64_t>, plan::Infeasible>> cuts_;
  struct StagesOfSpec {
    plan::PlanSpec spec;
    std::once_flag once;
    MadeStages stages;
  };
  std::mutex stages_mutex_;  // of the list
  /// Some hundreds: to compare them all takes much less time than to count one.
  std::list<StagesOfSpec> stages_;
};

}  // namespace fourfold::search
