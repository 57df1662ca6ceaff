// Why there is no plan: data, so that a search may go on and whoever talks to people finds the
// words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "op/program_kind.h"
#include "pipeline/make_orders.h"
#include "plan/plan_spec.h"

namespace fourfold::plan {

/// The strategy leaves this axis at 1.
struct ForbiddenAxis {
  Strategy strategy = Strategy::axonn;
  std::string axis;
  std::int64_t ranks = 1;
};

/// The grid has another number of ranks than the job, or than each of the stages that share it;
/// where its ranks of data are open, its other axes do not divide them.
struct UnevenJob {
  Grid grid;
  bool has_open_data = false;
  std::int64_t ranks = 1;   // of the job
  std::int64_t stages = 1;  // that share them
  std::int64_t stages_per_mesh = 1;
};

/// The meshes that the stages of a pipeline were given are not as many as they need, or do not add
/// up to the ranks of the job.
struct UnevenMeshes {
  std::int64_t stages = 1, meshes = 1, ranks_of_meshes = 1;
  std::optional<std::int64_t> ranks = std::nullopt;  // of the job
  std::int64_t stages_per_mesh = 1;
};

/// The stages of a pipeline cannot be dealt out to meshes that have so many each.
struct UnevenStages {
  std::int64_t stages = 1, stages_per_mesh = 1;
};

/// The numbers of layers that the stages of a pipeline were given are not one for each, or do not
/// add up to the layers of the model; or there are more stages than layers.
struct UnevenLayers {
  std::int64_t stages = 1, layers = 1;  // of the model
  std::vector<std::int64_t> given;      // by stage; empty: left open
};

/// The samples of a step are no multiple of those that all ranks process at once.
struct UnevenBatch {
  std::int64_t global_batch = 1, micro_batch = 1;
  std::int64_t data = 1, z = 1;  // ranks with different samples
  std::int64_t replicas() const { return data * z; }
};

/// The samples that a rank processes at once are no multiple of their chunks.
struct UnevenChunks {
  std::int64_t micro_batch = 1, chunks = 1;
};

/// A pipeline has no chunks: its stages hand over whole micro-batches.
struct ChunkedStages {
  std::int64_t chunks = 1;
};

/// An axis that has to cut one of some dims of a tensor divides none of them.
struct Indivisible {
  std::string tensor;
  enum class Side : std::uint8_t { rows, columns } side = Side::rows;  // what a product contracts
  std::vector<std::int64_t> sizes;  // of those dims, as a rank would hold them
  std::int64_t size = 1;            // of all of them together, over all ranks
  std::string axis;
  std::int64_t ranks = 1;
  std::vector<std::int64_t> degrees;  // that would do, up to twice the one wanted
};

/// An op's rule cannot be followed.
struct BrokenRule {
  std::string op;
  op::ProgramKind graph = op::ProgramKind::train;
  std::string problem;
};

/// A stage does not divide the samples of a micro-batch.
struct UnevenStage {
  std::size_t stage = 0;
  std::int64_t samples = 1, replicas = 1;
};

/// A tensor that several stages use has too few rows for each of their ranks to have one.
struct PaddedTransfer {
  std::string tensor;
  std::int64_t rows = 1, ranks = 1;
};

/// The schedule of a pipeline does not go with what it was given.
struct RefusedSchedule {
  pipeline::Refusal refusal;
};

/// A pin of the user cannot be obeyed.
struct BadPin {
  enum class Why : std::uint8_t {
    unused,       // no parameter and no activation has such a name
    dims,         // the tensor has other dims
    indivisible,  // the axes do not divide a dim
    other_pin,    // another pin says otherwise of the parameter
    graph,        // an op cannot work on a parameter that lies so
    whole         // the tensor is whole on every rank, and never ought to be
  } why = Why::unused;
  std::string pattern, sharding;  // of the pin
  std::string tensor;             // the first one that it is wrong for
  std::vector<std::int64_t> shape = {};
  std::int64_t size = 1, ranks = 1;        // of the dim, and of the axes on it
  std::vector<std::int64_t> degrees = {};  // that would do, up to twice the one wanted
  std::string other = {};                  // the pattern of the other pin; what the op wants
  std::string instead = {};                // the sharding that the strategy gives the tensor
  std::vector<std::string> names = {};     // of all parameters
};

/// A layout that is given is not one of this model on this mesh: all that is wrong with its text.
struct BadLayout {
  std::vector<Diagnostic> faults;
};

using Problem = std::variant<ForbiddenAxis, UnevenJob, UnevenMeshes, UnevenStages, UnevenLayers,
                             UnevenBatch, UnevenChunks, ChunkedStages, Indivisible, BrokenRule,
                             UnevenStage, PaddedTransfer, RefusedSchedule, BadPin, BadLayout>;

struct Infeasible {
  std::vector<Problem> problems;
};

/// True if no other grid would do: the problem is a pin that no grid can obey, or a given layout.
inline bool is_of_any_grid(const Problem& problem) {
  if (std::holds_alternative<BadLayout>(problem)) return true;
  const auto* pin = std::get_if<BadPin>(&problem);
  return pin != nullptr && pin->why != BadPin::Why::indivisible && pin->why != BadPin::Why::graph &&
         pin->why != BadPin::Why::whole;
}

}  // namespace fourfold::plan
