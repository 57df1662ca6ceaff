#include "pipeline/dependencies.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::pipeline {
namespace {

class Walk {
 public:
  Walk(const std::vector<Order>& orders, const std::vector<Edge>& edges)
      : orders_(orders), extent_(extent_of(orders)), edges_(edges) {
    for (const Edge& edge : edges) extent_.stages = std::max(extent_.stages, edge.to + 1);
    of_stages_ = edges_of_stages(edges, extent_.stages);
    mesh_of_ = meshes_of_stages(orders, extent_.stages);
    done_.resize(extent_.stages * static_cast<std::size_t>(extent_.micros));
    at_.resize(orders.size());
  }

  std::variant<std::vector<Step>, Stuck> run() {
    for (std::size_t mesh = orders_.size(); mesh-- > 0;) ready_.push_back(mesh);
    while (!ready_.empty()) {
      const std::size_t mesh = ready_.back();
      ready_.pop_back();
      while (at_[mesh] < orders_[mesh].size() && !missing(task_at(mesh))) carry_out(mesh);
    }
    for (std::size_t mesh = 0; mesh < orders_.size(); ++mesh)
      if (at_[mesh] < orders_[mesh].size()) return circle_from(mesh);
    return std::move(steps_);
  }

 private:
  const Task& task_at(std::size_t mesh) const { return orders_[mesh][at_[mesh]]; }
  std::array<bool, 4>& done(std::size_t stage, std::int64_t micro) {
    return done_[stage * static_cast<std::size_t>(extent_.micros) +
                 static_cast<std::size_t>(micro)];
  }
  bool is_done(TaskKind kind, std::size_t stage, std::int64_t micro) {
    return done(stage, micro)[static_cast<std::size_t>(kind)];
  }

  /// The first task that this one needs and that has not run.
  std::optional<Task> missing(const Task& task) {
    const auto unless_done = [&](TaskKind kind, std::size_t stage) -> std::optional<Task> {
      if (is_done(kind, stage, task.micro)) return std::nullopt;
      return Task{kind, stage, task.micro};
    };
    switch (task.kind) {
      case TaskKind::forward:
        for (const std::size_t edge : of_stages_.into[task.stage])
          if (auto needed = unless_done(TaskKind::forward, edges_[edge].from)) return needed;
        return std::nullopt;
      case TaskKind::backward:
        for (const std::size_t edge : of_stages_.out_of[task.stage])
          if (auto needed = unless_done(TaskKind::backward, edges_[edge].to)) return needed;
        return unless_done(TaskKind::forward, task.stage);
      case TaskKind::weight_backward:
        return unless_done(TaskKind::backward, task.stage);
      case TaskKind::update:
        return std::nullopt;
    }
    fail_internal("every kind of task says what it needs");
  }

  void carry_out(std::size_t mesh) {
    const Task& task = task_at(mesh);
    steps_.push_back({mesh, at_[mesh]++});
    if (task.kind == TaskKind::update) return;
    done(task.stage, task.micro)[static_cast<std::size_t>(task.kind)] = true;
    if (task.kind == TaskKind::forward)
      for (const std::size_t edge : of_stages_.out_of[task.stage]) wake(edges_[edge].to, task);
    if (task.kind == TaskKind::backward)
      for (const std::size_t edge : of_stages_.into[task.stage]) wake(edges_[edge].from, task);
  }

  /// Lets the mesh of a stage go on if it stands at the task that this one was sent to.
  void wake(std::size_t stage, const Task& task) {
    const std::size_t mesh = mesh_of_[stage];
    if (mesh < orders_.size() && at_[mesh] < orders_[mesh].size() &&
        task_at(mesh) == Task{task.kind, stage, task.micro})
      ready_.push_back(mesh);
  }

  Stuck circle_from(std::size_t mesh) {
    Stuck stuck;
    std::vector<std::size_t> met;
    while (mesh < orders_.size() && at_[mesh] < orders_[mesh].size()) {
      if (const auto before = std::ranges::find(met, mesh); before != met.end()) {
        stuck.circle.erase(stuck.circle.begin(), stuck.circle.begin() + (before - met.begin()));
        break;
      }
      met.push_back(mesh);
      const Task needed = *missing(task_at(mesh));
      stuck.circle.push_back({mesh, task_at(mesh), needed});
      mesh = mesh_of_[needed.stage];
    }
    return stuck;
  }

  const std::vector<Order>& orders_;
  Extent extent_;
  const std::vector<Edge>& edges_;
  EdgesOfStages of_stages_;
  std::vector<std::size_t> mesh_of_;
  std::vector<std::array<bool, 4>> done_;  // by stage and micro-batch, then by kind
  std::vector<std::size_t> at_, ready_;    // where each mesh is; meshes that may go on
  std::vector<Step> steps_;
};

std::string words(const Task& task) {
  return format("{}{} of stage {}", letter_of(task.kind), task.micro, task.stage);
}

}  // namespace

std::vector<Edge> chain(std::size_t stages) {
  std::vector<Edge> edges;
  for (std::size_t stage = 1; stage < stages; ++stage) edges.push_back({stage - 1, stage});
  return edges;
}

EdgesOfStages edges_of_stages(const std::vector<Edge>& edges, std::size_t stages) {
  EdgesOfStages result{std::vector<std::vector<std::size_t>>(stages),
                       std::vector<std::vector<std::size_t>>(stages)};
  for (std::size_t i = 0; i < edges.size(); ++i) {
    require(edges[i].from < edges[i].to && edges[i].to < stages,
            "an edge goes from an earlier stage to a later one");
    result.into[edges[i].to].push_back(i);
    result.out_of[edges[i].from].push_back(i);
  }
  return result;
}

Extent extent_of(const std::vector<Order>& orders) {
  Extent extent;
  for (const Order& order : orders)
    for (const Task& task : order) {
      extent.stages = std::max(extent.stages, task.stage + 1);
      extent.micros = std::max(extent.micros, task.micro + 1);
    }
  return extent;
}

std::vector<std::size_t> meshes_of_stages(const std::vector<Order>& orders, std::size_t stages) {
  std::vector<std::size_t> meshes(stages, orders.size());  // no mesh has it
  for (std::size_t mesh = 0; mesh < orders.size(); ++mesh)
    for (const Task& task : orders[mesh]) {
      std::size_t& of_stage = meshes.at(task.stage);
      require(of_stage == orders.size() || of_stage == mesh, "one mesh has all tasks of a stage");
      of_stage = mesh;
    }
  return meshes;
}

std::string to_text(const Stuck& stuck) {
  std::string text;
  for (const Waiting& waiting : stuck.circle)
    text += format("{}mesh {} waits at {} for {}", text.empty() ? "" : "; ", waiting.mesh,
                   words(waiting.task), words(waiting.needed));
  return text;
}

std::variant<std::vector<Step>, Stuck> steps_in_order(const std::vector<Order>& orders,
                                                      const std::vector<Edge>& edges) {
  return Walk(orders, edges).run();
}

}  // namespace fourfold::pipeline
