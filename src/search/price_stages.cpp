#include "search/price_stages.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "pipeline/make_orders.h"
#include "search/pipeline_forms.h"
#include "search/transfer_forms.h"

namespace fourfold::search {
namespace {

using machine::AxisGroup;

/// Seconds of messages as costs of edges: one for each pair of stages.
class Messages {
 public:
  Messages(const CountedStages& counted, const Pricer& pricer, const GroupsOfMeshes& groups,
           const plan::PlanSpec& spec)
      : counted_(counted), pricer_(pricer), groups_(groups), spec_(spec), first_{0} {
    for (std::size_t stage = 0; stage < counted.layers.size(); ++stage)
      first_.push_back(first_.back() +
                       static_cast<std::int64_t>(counted.mesh_of(stage).ranks.size()));
  }

  void add_to(TimedStages& timed) const {
    for (const CountedMessage& message : counted_.messages) {
      const double seconds = seconds_of(message);
      if (message.is_once_a_step)
        timed.at_end_s[message.to] += seconds;
      else if (spec_.overlap.send_recv)
        add(message, seconds, timed.costs);
      else
        for (const std::size_t stage : {message.from, message.to})
          (message.is_backward ? timed.costs.stages[stage].backward_s
                               : timed.costs.stages[stage].forward_s) += seconds;
    }
  }

 private:
  static void add(const CountedMessage& message, double seconds, pipeline::Costs& costs) {
    pipeline::Edge edge{message.from, message.to};
    if (message.is_backward) std::swap(edge.from, edge.to);
    auto place = std::ranges::find(costs.edges, edge);
    if (place == costs.edges.end()) {
      costs.of_edges.emplace_back();
      place = costs.edges.insert(costs.edges.end(), edge);
    }
    pipeline::EdgeCost& cost =
        costs.of_edges[static_cast<std::size_t>(place - costs.edges.begin())];
    (message.is_backward ? cost.backward_s : cost.forward_s) += seconds;
  }

  double seconds_of(const CountedMessage& message) const {
    return transfer_seconds(pricer_.cluster(), message.bytes, side_of(message.from, message.sent),
                            side_of(message.to, message.received), spec_.pipeline.reshard.chunks);
  }

  TensorOnRanks side_of(std::size_t stage, const std::vector<AxisId>& axes) const {
    TensorOnRanks side{first_[stage], first_[stage + 1] - first_[stage], {}};
    const std::vector<AxisGroup>& groups = groups_[counted_.kinds[counted_.kind_of[stage]].mesh];
    for (const AxisId axis : axes)
      if (groups[axis.index()].ranks > 1) side.cuts.push_back(groups[axis.index()]);
    return side;
  }

  const CountedStages& counted_;
  const Pricer& pricer_;
  const GroupsOfMeshes& groups_;
  const plan::PlanSpec& spec_;
  std::vector<std::int64_t> first_;  // rank of each stage, and of one after them
};

}  // namespace

std::optional<std::vector<StageOfPlan>> stages_in_schedule(const CountedStages& counted,
                                                           const pipeline::ScheduleSpec& schedule,
                                                           std::int64_t micros) {
  const std::size_t count = counted.layers.size();
  const auto made = pipeline::in_flight_by_mesh(schedule, count, micros);
  const auto* in_flight = std::get_if<std::vector<std::int64_t>>(&made);
  if (in_flight == nullptr) return std::nullopt;
  const bool is_fixed = schedule.weight_delay.kind == pipeline::WeightDelay::Kind::fixed;
  std::vector<StageOfPlan> stages(count);
  for (std::size_t stage = 0; stage < count; ++stage) {
    const Demand& demand = counted.demand_of(stage);
    stages[stage].layers = counted.layers[stage];
    stages[stage].in_flight = pipeline::most_live(
        (*in_flight)[stage], is_fixed ? schedule.weight_delay.micros : 0, micros);
    stages[stage].memory_bytes =
        with_in_flight(demand, stages[stage].in_flight, micros).memory.all();
  }
  return stages;
}

Demand fullest_demand(const CountedStages& counted, const std::vector<StageOfPlan>& stages) {
  const auto fullest = std::ranges::max_element(stages, {}, &StageOfPlan::memory_bytes);
  const Demand& demand = counted.demand_of(static_cast<std::size_t>(fullest - stages.begin()));
  return with_in_flight(demand, fullest->in_flight, static_cast<std::int64_t>(demand.micros));
}

GroupsOfMeshes groups_of_stages(const CountedStages& counted,
                                const std::vector<std::string>& order) {
  GroupsOfMeshes groups;
  for (const Mesh& mesh : counted.meshes) groups.push_back(groups_in_order(mesh, order));
  return groups;
}

TimedStages time_stages(const CountedStages& counted, Pricer& pricer, const GroupsOfMeshes& groups,
                        const plan::PlanSpec& spec, std::int64_t micros) {
  constexpr double third = 1.0 / 3, quarter = 1.0 / 4;
  const double share = spec.checkpointing.repeats_any() ? quarter : third;
  TimedStages timed;
  for (const CountedStage& kind : counted.kinds)
    timed.kinds.push_back(pricer.price(kind.demand, groups[kind.mesh]));
  for (const std::size_t kind : counted.kind_of) {
    const Price& price = timed.kinds[kind];
    const double micro = (price.step() - price.at_end) / static_cast<double>(micros);
    timed.costs.stages.push_back({share * micro, (1 - share) * micro, 0});
    timed.at_end_s.push_back(price.at_end);
  }
  Messages(counted, pricer, groups, spec).add_to(timed);
  return timed;
}

Price price_of_stages(const CountedStages& counted, const TimedStages& timed,
                      pipeline::Schedule schedule, std::int64_t micros) {
  const double all = pipeline_seconds(timed.costs, schedule, micros);
  double end = all, step = 0;
  std::size_t slowest = 0;
  for (std::size_t stage = 0; stage < counted.layers.size(); ++stage) {
    step = std::max(step, end + timed.at_end_s[stage]);
    end -= timed.costs.stages[stage].backward_s;  // the next stage has ended so much earlier
    if (timed.kinds[counted.kind_of[stage]].step() > timed.kinds[counted.kind_of[slowest]].step())
      slowest = stage;
  }
  Price price = timed.kinds[counted.kind_of[slowest]];
  price.pipeline = step - price.step();
  return price;
}

}  // namespace fourfold::search
