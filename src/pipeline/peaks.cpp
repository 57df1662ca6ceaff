#include "pipeline/peaks.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "pipeline/places.h"

namespace fourfold::pipeline {
namespace {

/// The tasks that make what an edge carries, those that read it first and those that read it last.
struct Ends {
  std::size_t sender, receiver;  // meshes
  const std::vector<std::size_t>&made, &read, &last_read;
};
Ends ends_of_tensor(const StagePlaces& from, const StagePlaces& to) {
  return {from.mesh, to.mesh, from.forward, to.forward, to.last()};
}
/// What a stage's output has as gradient is read for the gradients of weights, too.
Ends ends_of_gradient(const StagePlaces& from, const StagePlaces& to) {
  return {to.mesh, from.mesh, to.backward, from.backward, from.last()};
}

/// For each task, how many tasks of each mesh have ended before it can begin.
class Causes {
 public:
  Causes(const std::vector<Order>& orders, const std::vector<Edge>& edges,
         const std::vector<StagePlaces>& places)
      : meshes_(orders.size()) {
    for (const Order& order : orders) counts_.emplace_back(order.size() * meshes_, 0);
    const EdgesOfStages of_stages = edges_of_stages(edges, places.size());
    const auto steps = steps_in_order(orders, edges);
    require(std::holds_alternative<std::vector<Step>>(steps),
            "orders whose peaks are asked for come to their end");
    for (const Step& step : std::get<std::vector<Step>>(steps)) {
      const Task& task = orders[step.mesh][step.place];
      if (step.place > 0) needs(step, {step.mesh, step.place - 1});
      const auto micro = static_cast<std::size_t>(task.micro);
      if (task.kind == TaskKind::forward)
        for (const std::size_t edge : of_stages.into[task.stage]) {
          const StagePlaces& from = places[edges[edge].from];
          needs(step, {from.mesh, from.forward[micro]});
        }
      if (task.kind == TaskKind::backward)
        for (const std::size_t edge : of_stages.out_of[task.stage]) {
          const StagePlaces& to = places[edges[edge].to];
          needs(step, {to.mesh, to.backward[micro]});
        }
    }
  }

  std::span<const std::size_t> of(const Step& step) const {
    return std::span(counts_[step.mesh]).subspan(step.place * meshes_, meshes_);
  }

 private:
  void needs(const Step& step, const Step& earlier) {
    std::size_t* counts = counts_[step.mesh].data() + step.place * meshes_;
    const std::span<const std::size_t> before = of(earlier);
    for (std::size_t mesh = 0; mesh < meshes_; ++mesh)
      counts[mesh] = std::max(counts[mesh], before[mesh]);
    counts[earlier.mesh] = std::max(counts[earlier.mesh], earlier.place + 1);
  }

  std::size_t meshes_;
  std::vector<std::vector<std::size_t>> counts_;  // by mesh; of each of its tasks, by mesh
};

/// How many of the tasks `made` of the sender can have run while `freed` of the receiver's, one for
/// each, have not: just before the j-th one of these has run, the sender is at most at the first
/// task that cannot begin before it.
std::int64_t most_waiting(const Ends& ends, const std::vector<std::size_t>& freed,
                          const Order& of_sender, const Causes& causes) {
  std::size_t most = 0, place = 0, made = 0;
  for (std::size_t micro = 0; micro < freed.size(); ++micro) {
    while (place < of_sender.size() &&
           causes.of({ends.sender, place})[ends.receiver] <= freed[micro])
      ++place;
    while (made < ends.made.size() && ends.made[made] < place) ++made;
    most = std::max(most, made - micro);
  }
  return static_cast<std::int64_t>(most);
}

EdgeCopies most_copies(const Ends& ends, const std::vector<Order>& orders, const Causes& causes) {
  if (ends.sender == ends.receiver) return {};
  const Order& of_sender = orders[ends.sender];
  return {most_waiting(ends, ends.read, of_sender, causes),
          most_waiting(ends, ends.last_read, of_sender, causes)};
}

/// The most intervals that hold one moment, of which both ends ascend. One that ends as another
/// begins is over.
std::int64_t most_at_once(const std::vector<Interval>& intervals) {
  std::size_t most = 0, begun = 0;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    begun = std::max(begun, i + 1);
    while (begun < intervals.size() && intervals[begun].begin_s < intervals[i].end_s) ++begun;
    most = std::max(most, begun - i);
  }
  return static_cast<std::int64_t>(most);
}

EdgeCopies copies_at(const Ends& ends, const std::vector<Passage>& passages, const Timing& timing) {
  if (ends.sender == ends.receiver) return {};
  std::vector<Interval> on_sender, on_receiver;
  for (std::size_t micro = 0; micro < passages.size(); ++micro) {
    on_sender.push_back(
        {timing.tasks[ends.sender][ends.made[micro]].begin_s, passages[micro].sent.end_s});
    on_receiver.push_back({passages[micro].received.begin_s,
                           timing.tasks[ends.receiver][ends.last_read[micro]].end_s});
  }
  return {most_at_once(on_sender), most_at_once(on_receiver)};
}

}  // namespace

Peaks most_peaks(const std::vector<Order>& orders, const std::vector<Edge>& edges) {
  const std::vector<StagePlaces> places = places_of_stages(orders);
  const Causes causes(orders, edges, places);
  Peaks peaks;
  for (std::size_t stage = 0; stage < places.size(); ++stage)
    peaks.live_of_stage.push_back(slots_between(
        orders[places[stage].mesh], stage, TaskKind::forward,
        places[stage].weight_backward.empty() ? TaskKind::backward : TaskKind::weight_backward));
  for (const auto& [from, to] : edges) {
    peaks.forward.push_back(most_copies(ends_of_tensor(places[from], places[to]), orders, causes));
    peaks.backward.push_back(
        most_copies(ends_of_gradient(places[from], places[to]), orders, causes));
  }
  return peaks;
}

Peaks peaks_at(const std::vector<Order>& orders, const Costs& costs, const Timing& timing) {
  const std::vector<StagePlaces> places = places_of_stages(orders);
  Peaks peaks;
  for (const StagePlaces& stage : places) {
    std::vector<Interval> live;
    for (std::size_t micro = 0; micro < stage.forward.size(); ++micro)
      live.push_back({timing.tasks[stage.mesh][stage.forward[micro]].begin_s,
                      timing.tasks[stage.mesh][stage.last()[micro]].end_s});
    peaks.live_of_stage.push_back(most_at_once(live));
  }
  for (std::size_t i = 0; i < costs.edges.size(); ++i) {
    const StagePlaces& from = places[costs.edges[i].from];
    const StagePlaces& to = places[costs.edges[i].to];
    peaks.forward.push_back(copies_at(ends_of_tensor(from, to), timing.edges[i].forward, timing));
    peaks.backward.push_back(
        copies_at(ends_of_gradient(from, to), timing.edges[i].backward, timing));
  }
  return peaks;
}

}  // namespace fourfold::pipeline
