// When a mesh sends: at once where its neighbours take it in time, and else as late as keeps the
// job from waiting in a circle, whatever graph the stages are.
#include "compile/departures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "pipeline/make_orders.h"

namespace fourfold::compile {
namespace {

using graph::Phase;
using pipeline::Schedule;

struct Case {
  Schedule schedule = Schedule::one_f_one_b;
  std::int64_t laps = 1, micros = 1;
  std::size_t meshes = 2;
  std::optional<std::int64_t> delay = std::nullopt;
  bool is_beside = true;

  std::string text() const {
    return format("{}, {} meshes of {} stages, {} micro-batches, delay {}{}",
                  pipeline::to_string(schedule), meshes, laps, micros, delay.value_or(-1),
                  is_beside ? "" : ", nothing beside computation");
  }
};

/// A training step, with edges without values: those of `edges`, and back again.
plan::Plan plan_of(const Case& its, const std::set<std::pair<std::size_t, std::size_t>>& edges) {
  plan::Plan plan;
  plan.meshes.resize(its.meshes);
  plan.layers.assign(its.meshes * static_cast<std::size_t>(its.laps), 1);
  plan.overlap.send_recv = its.is_beside;
  plan.schedule = {.schedule = its.schedule, .stages_per_mesh = its.laps};
  if (its.delay) plan.schedule.weight_delay = {pipeline::WeightDelay::Kind::fixed, *its.delay};
  plan.orders = std::get<0>(pipeline::make_orders(plan.schedule, its.meshes, its.micros));
  const auto add = [&](std::size_t from, std::size_t to, Phase phase) {
    plan::Edge edge{op::ProgramKind::train, "v",  "v", plan.mesh_of_stage(from),
                    plan.mesh_of_stage(to), phase};
    if (edge.from == edge.to) return;
    edge.shape = {static_cast<std::int64_t>(1 + (from * 7 + to) % 5)};
    edge.from_stage = from;
    edge.to_stage = to;
    plan.edges.push_back(edge);
  };
  for (const auto& [from, to] : edges) add(from, to, Phase::forward);
  for (const auto& [from, to] : edges) add(to, from, Phase::backward);
  return plan;
}

std::set<std::pair<std::size_t, std::size_t>> chain_of(const Case& its) {
  std::set<std::pair<std::size_t, std::size_t>> edges;
  for (std::size_t stage = 1; stage < its.meshes * static_cast<std::size_t>(its.laps); ++stage)
    edges.emplace(stage - 1, stage);
  return edges;
}

std::vector<Case> cases_of(std::size_t meshes, std::int64_t micros) {
  std::vector<Case> cases;
  for (const bool is_beside : {true, false})
    for (const auto& delay : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1)}) {
      for (const Schedule schedule :
           {Schedule::gpipe, Schedule::one_f_one_b, Schedule::eager_one_f_one_b})
        cases.push_back({schedule, 1, micros, meshes, delay, is_beside});
      if (micros % static_cast<std::int64_t>(meshes) == 0)
        for (const std::int64_t laps : {2, 3})
          cases.push_back({Schedule::interleaved, laps, micros, meshes, delay, is_beside});
    }
  return cases;
}

/// What waits for what, as departures.cpp says at its beginning, as a graph of its own: whether it
/// has a circle.
class Blocks {
 public:
  Blocks(const plan::Plan& plan, const Departures& departures) {
    const std::vector<MeshOrder> orders = mesh_orders(plan, op::ProgramKind::train);
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> tasks;  // by mesh and place
    for (std::size_t mesh = 0; mesh < orders.size(); ++mesh)
      for (std::size_t at = 0; at < orders[mesh].tasks().size(); ++at) {
        tasks[{mesh, at}] = add();
        if (at > 0) waits(tasks[{mesh, at}], tasks[{mesh, at - 1}]);
      }
    struct Sent {
      std::size_t mesh, place, block;
    };
    std::vector<Sent> sent;
    struct Received {
      std::size_t mesh, before, block;
    };
    std::vector<Received> received;
    for (std::size_t mesh = 0; mesh < orders.size(); ++mesh) {
      std::map<std::size_t, std::size_t> last;  // by mesh that sends
      std::optional<std::size_t> last_receipt;
      for (const Arrival& arrival :
           arrivals_on(MeshId(mesh), plan, op::ProgramKind::train, orders)) {
        const std::size_t block = add(), place = departures.place(arrival.edge, arrival.micro),
                          made = plan.overlap.send_recv ? arrival.sender : place;
        EXPECT_GE(place, arrival.sender);
        waits(block, tasks.at({arrival.from, made}));
        if (arrival.before > 0) waits(block, tasks.at({mesh, arrival.before - 1}));
        waits(tasks.at({mesh, arrival.reader}), block);
        if (const auto before = last.find(arrival.from); before != last.end())
          waits(block, before->second);
        if (!plan.overlap.send_recv && last_receipt) waits(block, *last_receipt);
        last[arrival.from] = block;
        last_receipt = block;
        sent.push_back({arrival.from, place, block});
        received.push_back({mesh, arrival.before, block});
      }
    }
    for (const Sent& one : sent) {
      const std::size_t next = one.place + 1 + (plan.overlap.send_recv ? tasks_to_send : 0);
      if (const auto task = tasks.find({one.mesh, next}); task != tasks.end())
        waits(task->second, one.block);
      for (const Received& other : received)
        if (other.mesh == one.mesh && other.before > one.place + tasks_to_send)
          waits(other.block, one.block);
    }
  }

  bool has_circle() const {
    std::vector<std::size_t> open = waited_for_, ready;
    for (std::size_t i = 0; i < open.size(); ++i)
      if (open[i] == 0) ready.push_back(i);
    std::size_t done = 0;
    for (; !ready.empty(); ++done) {
      const std::size_t block = ready.back();
      ready.pop_back();
      for (const std::size_t other : waiting_[block])
        if (--open[other] == 0) ready.push_back(other);
    }
    return done < open.size();
  }

 private:
  std::size_t add() {
    waiting_.emplace_back();
    waited_for_.push_back(0);
    return waiting_.size() - 1;
  }
  void waits(std::size_t block, std::size_t other) {
    waiting_[other].push_back(block);
    ++waited_for_[block];
  }

  std::vector<std::vector<std::size_t>> waiting_;
  std::vector<std::size_t> waited_for_;
};

/// Where a mesh sends in both directions before it computes on, one of two neighbours keeps what
/// the other one cannot take yet.
bool sends_both_ways_at_once(const Case& its) {
  return !its.is_beside && (its.schedule == Schedule::interleaved ||
                            (its.schedule == Schedule::eager_one_f_one_b && its.delay));
}

TEST(Departures, of_stages_that_feed_the_next_one_are_those_of_their_tasks) {
  for (std::size_t meshes = 2; meshes <= 8; ++meshes)
    for (const std::int64_t micros : {1, 2, 4, 8, 24})
      for (const Case& its : cases_of(meshes, micros)) {
        if (sends_both_ways_at_once(its)) continue;
        EXPECT_EQ(Departures(plan_of(its, chain_of(its))).count_late(), 0U) << its.text();
      }
}

TEST(Departures, are_late_where_a_first_stage_feeds_a_far_one) {
  const Case its{Schedule::one_f_one_b, 1, 16, 8};
  auto edges = chain_of(its);
  edges.emplace(0, 7);
  const plan::Plan plan = plan_of(its, edges);
  const Departures departures(plan);
  EXPECT_GT(departures.count_late(), 0U);
  EXPECT_FALSE(Blocks(plan, departures).has_circle());
}

TEST(Departures, close_no_circle_in_any_graph_of_stages) {
  std::mt19937 random(7);
  std::size_t late = 0, looked_at = 0;
  for (int round = 0; round < 12; ++round) {
    const std::size_t meshes = 2 + random() % 9;
    const auto micros = static_cast<std::int64_t>(meshes * (1 + random() % 4) + random() % 2);
    for (const Case& its : cases_of(meshes, micros)) {
      auto edges = chain_of(its);
      const std::size_t stages = meshes * static_cast<std::size_t>(its.laps);
      for (std::size_t skips = random() % 6; skips > 0; --skips) {
        const std::size_t a = random() % stages, b = random() % stages;
        if (a != b) edges.emplace(std::min(a, b), std::max(a, b));
      }
      const plan::Plan plan = plan_of(its, edges);
      const Departures departures(plan);
      EXPECT_FALSE(Blocks(plan, departures).has_circle()) << its.text();
      late += departures.count_late() > 0 ? 1 : 0;
      ++looked_at;
    }
  }
  EXPECT_GT(late, looked_at / 4);
}

}  // namespace
}  // namespace fourfold::compile
