// What a plan is and whether it is legal: meshes, the sharding of every value, micro-batches,
// recomputation. Not how it is carried out: that is compile/.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/mesh.h"
#include "graph/graph.h"
#include "plan/plan_spec.h"

namespace fourfold::plan {

/// Why there is no plan: the keys at fault and what would work. A value, so that a search can go
/// on.
struct Infeasible {
  struct Problem {
    std::vector<std::string> keys;
    std::string message;
  };
  std::vector<Problem> problems;
};

/// One line a problem.
std::string to_text(const Infeasible& infeasible);

/// How the samples of a step are divided: global = micro x accumulation x ranks that hold different
/// samples.
struct Batching {
  std::int64_t global_batch = 1;  // samples of a step
  std::int64_t micro_batch = 1;   // samples that one rank processes at once
  std::int64_t replicas = 1;      // ranks with different samples: data x z
  std::int64_t accumulation = 1;  // micro-batches of a step
  std::int64_t length = 1;        // tokens of a sample
  bool operator==(const Batching&) const = default;

  std::int64_t samples() const {
    return micro_batch * replicas;
  }  // of a micro-batch, over all ranks
};
std::variant<Batching, Infeasible> solve_batching(const PlanSpec& spec);

/// The shardings of all values of one graph, by value id.
struct GraphShardings {
  std::string graph;
  std::vector<op::Sharding> values;
  bool operator==(const GraphShardings&) const = default;
};

struct Plan {
  std::int64_t world = 1;
  std::vector<Mesh> meshes;
  Batching batching;
  DType compute = DType::f32;
  Checkpointing checkpointing;
  std::vector<GraphShardings> shardings;  // in the order of the model's graphs
  bool operator==(const Plan&) const = default;

  const std::vector<op::Sharding>& of(std::string_view graph) const;
};

/// The plan for the graphs: persistent values and feeds as the strategy annotates them, all others
/// as the ops' factor rules derive them.
std::variant<Plan, Infeasible> make_plan(const graph::ModelGraphs& model, const PlanSpec& spec);

/// Meshes, the batch equation, and every value that is not replicated.
std::string to_text(const Plan& plan, const graph::ModelGraphs& model);

}  // namespace fourfold::plan
