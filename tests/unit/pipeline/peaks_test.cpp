#include "pipeline/peaks.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "unit/pipeline/pipelines.h"

namespace fourfold::pipeline {
namespace {

/// Copies counted by walking: whoever may run runs, in an order that somebody chooses.
class Walker {
 public:
  Walker(const std::vector<Order>& orders, const std::vector<Edge>& edges)
      : orders_(orders), edges_(edges), at_(orders.size()) {
    mesh_of_ = meshes_of_stages(orders, extent_of(orders).stages);
    splits_ = std::ranges::any_of(
        orders[0], [](const Task& task) { return task.kind == TaskKind::weight_backward; });
    peaks_.forward.resize(edges.size());
    peaks_.backward.resize(edges.size());
  }

  bool is_at_end(std::size_t mesh) const { return at_[mesh] == orders_[mesh].size(); }

  bool may_run(std::size_t mesh) const {
    if (is_at_end(mesh)) return false;
    const Task& task = orders_[mesh][at_[mesh]];
    return std::ranges::all_of(edges_, [&](const Edge& edge) {
      if (task.kind == TaskKind::forward && edge.to == task.stage)
        return done_.contains({TaskKind::forward, edge.from, task.micro});
      if (task.kind == TaskKind::backward && edge.from == task.stage)
        return done_.contains({TaskKind::backward, edge.to, task.micro});
      return true;
    });
  }

  void run(std::size_t mesh) {
    const Task task = orders_[mesh][at_[mesh]++];
    const TaskKind last = splits_ ? TaskKind::weight_backward : TaskKind::backward;
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      const auto [from, to] = edges_[i];
      if (mesh_of_[from] == mesh_of_[to]) continue;
      // A message may arrive at once, and no later than its reader begins.
      const bool makes = task.kind == TaskKind::forward && task.stage == from,
                 makes_gradient = task.kind == TaskKind::backward && task.stage == to;
      count(peaks_.forward[i].on_sender, forward_[i].on_sender,
            makes - (task.kind == TaskKind::forward && task.stage == to));
      count(peaks_.forward[i].on_receiver, forward_[i].on_receiver,
            makes - (task.kind == last && task.stage == to));
      count(peaks_.backward[i].on_sender, backward_[i].on_sender,
            makes_gradient - (task.kind == TaskKind::backward && task.stage == from));
      count(peaks_.backward[i].on_receiver, backward_[i].on_receiver,
            makes_gradient - (task.kind == last && task.stage == from));
    }
    done_.insert({task.kind, task.stage, task.micro});
  }

  const Peaks& peaks() const { return peaks_; }

 private:
  static void count(std::int64_t& peak, std::int64_t& alive, int change) {
    alive += change;
    peak = std::max(peak, alive);
  }

  const std::vector<Order>& orders_;
  const std::vector<Edge>& edges_;
  std::vector<std::size_t> at_, mesh_of_;
  bool splits_ = false;
  std::set<std::tuple<TaskKind, std::size_t, std::int64_t>> done_;
  std::map<std::size_t, EdgeCopies> forward_, backward_;  // alive
  Peaks peaks_;
};

/// The peaks of one edge when all meshes but `held` run as far as they can before it does a task.
Peaks peaks_with_a_slow_mesh(const std::vector<Order>& orders, const std::vector<Edge>& edges,
                             std::size_t held) {
  Walker walker(orders, edges);
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t mesh = 0; mesh < orders.size(); ++mesh)
      while (mesh != held && walker.may_run(mesh)) {
        walker.run(mesh);
        moved = true;
      }
    if (!moved && walker.may_run(held)) {
      walker.run(held);
      moved = true;
    }
  }
  for (std::size_t mesh = 0; mesh < orders.size(); ++mesh) EXPECT_TRUE(walker.is_at_end(mesh));
  return walker.peaks();
}

/// Each edge's peak is reached when its reader is the slowest of all meshes.
TEST(MostPeaks, are_what_a_walk_with_a_slow_reader_counts) {
  for_all_pipelines([](const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
    if (meshes == 1 || meshes > 4 || (micros > 4 && micros != 9 && micros != 12)) return;
    for (const bool splits : {false, true}) {
      const std::vector<Order> orders = made(splits ? with_delay(spec, 1) : spec, meshes, micros);
      const std::size_t stages = stages_of(spec, meshes);
      const std::vector<Edge> edges = stages <= 5 ? all_skips(stages) : chain(stages);
      const std::vector<std::size_t> mesh_of = meshes_of_stages(orders, stages);
      const Peaks most = most_peaks(orders, edges);
      for (std::size_t held = 0; held < meshes; ++held) {
        const Peaks walked = peaks_with_a_slow_mesh(orders, edges, held);
        for (std::size_t i = 0; i < edges.size(); ++i) {
          SCOPED_TRACE(format("edge {} to {}, mesh {} slow", edges[i].from, edges[i].to, held));
          if (mesh_of[edges[i].to] == held) {
            EXPECT_EQ(walked.forward[i], most.forward[i]);
          }
          if (mesh_of[edges[i].from] == held) {
            EXPECT_EQ(walked.backward[i], most.backward[i]);
          }
        }
      }
    }
  });
}

bool is_within(const EdgeCopies& copies, const EdgeCopies& most) {
  return copies.on_sender <= most.on_sender && copies.on_receiver <= most.on_receiver;
}

TEST(MostPeaks, are_exceeded_by_no_durations) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0.01, 4);
  for_all_pipelines([&](const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
    if (micros % 4 != 0) return;
    const std::vector<Order> orders =
        made(micros == 8 ? with_delay(spec, 1) : spec, meshes, micros);
    const std::size_t stages = stages_of(spec, meshes);
    Costs costs{.edges = stages <= 8 ? all_skips(stages) : chain(stages)};
    for (std::size_t stage = 0; stage < stages; ++stage)
      costs.stages.push_back({seconds(random), seconds(random), seconds(random)});
    for (std::size_t edge = 0; edge < costs.edges.size(); ++edge)
      costs.of_edges.push_back({seconds(random), seconds(random)});
    const Peaks most = most_peaks(orders, costs.edges);
    for (const Transfers transfers :
         {Transfers::overlapped, Transfers::block_sender, Transfers::block_both}) {
      costs.transfers = transfers;
      const Peaks peaks = peaks_at(orders, costs, timed(orders, costs));
      EXPECT_EQ(peaks.live_of_stage, most.live_of_stage);
      for (std::size_t i = 0; i < costs.edges.size(); ++i) {
        EXPECT_TRUE(is_within(peaks.forward[i], most.forward[i])) << i;
        EXPECT_TRUE(is_within(peaks.backward[i], most.backward[i])) << i;
      }
    }
  });
}

TEST(MostPeaks, of_stages_equal_the_closed_forms) {
  for_all_pipelines([](const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
    if (spec.schedule == Schedule::interleaved && spec.stages_per_mesh > 1) return;
    for (std::int64_t delay = 0; delay <= 2; ++delay) {
      const std::vector<Order> orders = made(with_delay(spec, delay), meshes, micros);
      const Peaks most = most_peaks(orders, chain(meshes));
      for (std::size_t mesh = 0; mesh < meshes; ++mesh)
        EXPECT_EQ(most.live_of_stage[mesh],
                  most_live(most_in_flight(spec.schedule, {mesh, meshes}, micros), delay, micros));
    }
  });
}

/// A skip from stage 0 to the last one lives as long as what stage 0 keeps itself: until the last
/// stage has used it, whatever lies between.
TEST(MostPeaks, of_a_skip_are_as_many_as_its_sender_has_in_flight) {
  for (const ScheduleSpec& spec : {ScheduleSpec{}, {.schedule = Schedule::eager_one_f_one_b}})
    for (std::size_t stages = 3; stages <= 8; ++stages) {
      std::vector<Edge> edges = chain(stages);
      edges.push_back({0, stages - 1});
      const Peaks most = most_peaks(made(spec, stages, 32), edges);
      EXPECT_EQ(most.forward.back().on_receiver, most.live_of_stage[0]);
    }
}

/// Worked out by hand: 1F1B on two meshes, F0 F1 B0 F2 B1 F3 B2 B3 and F0 B0 F1 B1 F2 B2 F3 B3,
/// each task a second and messages half a second.
TEST(Peaks, at_given_times_are_those_of_that_step) {
  const Costs costs = costs_of(2, {1, 1, 0, 0.5, 0.5});
  const std::vector<Order> orders = made({}, 2, 4);
  const Timing timing = timed(orders, costs);
  // Micro-batch 1 arrives at 2.5 on mesh 1, which frees micro-batch 0 at 3.5.
  EXPECT_EQ(timing.tasks[1][1].end_s, 3.5);
  EXPECT_EQ(peaks_at(orders, costs, timing), (Peaks{{2, 1}, {{2, 2}}, {{1, 1}}}));
  EXPECT_EQ(most_peaks(orders, costs.edges), (Peaks{{2, 1}, {{2, 2}}, {{2, 2}}}));
}

}  // namespace
}  // namespace fourfold::pipeline
