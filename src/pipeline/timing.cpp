#include "pipeline/timing.h"

#include <algorithm>

#include "base/error.h"
#include "pipeline/places.h"

namespace fourfold::pipeline {
namespace {

std::size_t index_of(std::int64_t micro) {
  return static_cast<std::size_t>(micro);
}

class Clock {
 public:
  Clock(const std::vector<Order>& orders, const Costs& costs)
      : orders_(orders),
        costs_(costs),
        micros_(index_of(extent_of(orders).micros)),
        of_stages_(edges_of_stages(costs.edges, costs.stages.size())),
        places_(places_of_stages(orders)),
        free_(orders.size()),
        channels_(orders.size() * orders.size()) {
    for (const Order& order : orders) timing_.tasks.emplace_back(order.size());
    const std::vector<Passage> passages(micros_);
    timing_.edges.assign(costs.edges.size(), {passages, passages});
  }

  Timing run(const std::vector<Step>& steps) {
    for (const Step& step : steps) carry_out(step);
    for (const double end : free_) timing_.makespan_s = std::max(timing_.makespan_s, end);
    return std::move(timing_);
  }

 private:
  void carry_out(const Step& step) {
    const Task& task = orders_[step.mesh][step.place];
    double& free_s = free_[step.mesh];
    if (task.kind == TaskKind::forward)
      for (const std::size_t edge : of_stages_.into[task.stage])
        take(timing_.edges[edge].forward[index_of(task.micro)], step.mesh,
             places_[costs_.edges[edge].from].mesh);
    if (task.kind == TaskKind::backward)
      for (const std::size_t edge : of_stages_.out_of[task.stage])
        take(timing_.edges[edge].backward[index_of(task.micro)], step.mesh,
             places_[costs_.edges[edge].to].mesh);
    const double end_s = free_s + duration_s(task);
    timing_.tasks[step.mesh][step.place] = {free_s, end_s};
    free_s = end_s;
    if (task.kind == TaskKind::forward)
      for (const std::size_t edge : of_stages_.out_of[task.stage])
        timing_.edges[edge].forward[index_of(task.micro)] = send(
            step.mesh, places_[costs_.edges[edge].to].mesh, end_s, costs_.of_edges[edge].forward_s);
    if (task.kind == TaskKind::backward)
      for (const std::size_t edge : of_stages_.into[task.stage])
        timing_.edges[edge].backward[index_of(task.micro)] =
            send(step.mesh, places_[costs_.edges[edge].from].mesh, end_s,
                 costs_.of_edges[edge].backward_s);
  }

  double duration_s(const Task& task) const {
    const StageCost& cost = costs_.stages[task.stage];
    switch (task.kind) {
      case TaskKind::forward:
        return cost.forward_s;
      case TaskKind::backward:
        return cost.backward_s +
               (places_[task.stage].weight_backward.empty() ? cost.weight_backward_s : 0);
      case TaskKind::weight_backward:
        return cost.weight_backward_s;
      case TaskKind::update:
        return 0;
    }
    fail_internal("every kind of task has a duration");
  }

  /// Gives a message to the link between two meshes once its task has ended.
  Passage send(std::size_t from, std::size_t to, double end_s, double duration) {
    if (from == to) return {{end_s, end_s}, {end_s, end_s}};
    double& free_s = costs_.transfers == Transfers::overlapped
                         ? channels_[from * orders_.size() + to]
                         : free_[from];
    const double begin_s = std::max(free_s, end_s);
    free_s = begin_s + duration;
    return {{begin_s, free_s}, {begin_s, free_s}};
  }

  /// Keeps the mesh from its next task until a message is there.
  void take(Passage& passage, std::size_t mesh, std::size_t from) {
    double& free_s = free_[mesh];
    if (costs_.transfers == Transfers::block_both && from != mesh) {
      const double begin_s = std::max(free_s, passage.sent.begin_s);
      passage.received = {begin_s, begin_s + (passage.sent.end_s - passage.sent.begin_s)};
    }
    free_s = std::max(free_s, passage.received.end_s);
  }

  const std::vector<Order>& orders_;
  const Costs& costs_;
  std::size_t micros_;
  EdgesOfStages of_stages_;
  std::vector<StagePlaces> places_;
  std::vector<double> free_;      // by mesh
  std::vector<double> channels_;  // by sender and receiver
  Timing timing_;
};

}  // namespace

std::variant<Timing, Stuck> time_orders(const std::vector<Order>& orders, const Costs& costs) {
  require(extent_of(orders).stages <= costs.stages.size() &&
              costs.edges.size() == costs.of_edges.size(),
          "each stage and each edge has a cost");
  auto steps = steps_in_order(orders, costs.edges);
  if (auto* stuck = std::get_if<Stuck>(&steps)) return std::move(*stuck);
  return Clock(orders, costs).run(std::get<std::vector<Step>>(steps));
}

double steady_period_s(const std::vector<Order>& orders, const Timing& timing) {
  const StagePlaces first = places_of_stages(orders).at(0);
  const std::size_t micros = first.backward.size(), from = micros / 4, to = micros - micros / 4 - 1;
  require(to > from, "a pipeline whose period is asked for has four micro-batches");
  const std::vector<Interval>& tasks = timing.tasks[first.mesh];
  return (tasks[first.backward[to]].end_s - tasks[first.backward[from]].end_s) /
         static_cast<double>(to - from);
}

std::vector<double> idle_shares(const Timing& timing) {
  std::vector<double> shares;
  for (const std::vector<Interval>& tasks : timing.tasks) {
    double busy_s = 0;
    for (const Interval& task : tasks) busy_s += task.end_s - task.begin_s;
    shares.push_back(timing.makespan_s > 0 ? 1 - busy_s / timing.makespan_s : 0);
  }
  return shares;
}

}  // namespace fourfold::pipeline
