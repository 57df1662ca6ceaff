// Tensors moved between meshes by several strategies, one line each: what was planned beside what
// it took. How one of them is carried out: reshard_bench.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/shape.h"
#include "comm/world.h"
#include "measure/print.h"
#include "reshard/lower.h"
#include "reshard/paper_cases.h"
#include "reshard/placement.h"
#include "reshard/reshard_plan.h"

namespace fourfold::measure {

/// A tensor to move, before anybody has said on which ranks.
struct ReshardTask {
  std::string name;
  Shape shape;
  std::string from, to;
  reshard::MeshShape from_mesh, to_mesh;

  std::int64_t ranks() const { return from_mesh.ranks() + to_mesh.ranks(); }
};

/// What is to be moved, and how.
struct ReshardRequest {
  std::vector<ReshardTask> tasks;
  std::vector<reshard::Strategy> strategies;  // of each task
  reshard::ReshardOptions options;            // of the plans, but for the strategy
  std::string rate, latency;                  // that the options have, in words
  reshard::Turns turns = reshard::Turns::kept;
  double seconds = 0.1;  // for each line
  bool is_json = false;  // one object at the end in place of lines

  /// As many as the largest task needs.
  std::int64_t ranks() const;
};

/// Moves every tensor by every strategy. A row of a mesh is a host, or where all ranks are on one,
/// as if it were. All ranks call together; the first one prints. Errors: UserError(bad_config)
/// where a task does not fit the hosts, and internal where an element is wrong, which its line says
/// too.
void measure_reshards(comm::World& world, const ReshardRequest& request, const Print& print);

/// The plans alone, each row of a mesh a host; in JSON one object with all of them.
void print_plans(const ReshardRequest& request, const Print& print);

}  // namespace fourfold::measure
