// What of a plan is left open is chosen here so that a rank's memory is within the plan's limit:
// how much is computed again, and which gathered weights stay for the backward pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compile/compile.h"

namespace fourfold::compile {

/// A job, and what was chosen of its plan.
struct Fitted {
  plan::Fit fit;
  program::Job job;
};

/// No choice is within the limit.
struct DoesNotFit {
  Fitted least;                  // what needs least
  std::int64_t least_bytes = 0;  // of a rank there: the smallest limit that works
  struct Tensor {
    std::string name;
    std::int64_t bytes = 0;
  };
  std::vector<Tensor> largest;  // of those alive at the fullest instruction; the largest first
};

/// Compiles a plan. Where it has a limit on memory, and
/// - the pipeline is eager: with as many micro-batches ahead as fit where nothing is repeated, and
///   no fewer than 1F1B.
/// - `checkpointing.is_auto`: with the least recomputation that fits, on each mesh for itself. One
///   of its layers after another, from the first on, is repeated but for its products; then, in the
///   same order, with them.
/// - `cached_gathers` is open: with the gathered weights of as many layers as then fit.
/// The others are chosen for all meshes alike. Without a limit nothing is repeated for `is_auto`,
/// and nothing that is open is changed. Cost: compiling the training step a few times more often,
/// at most about 3 log2(layers); once where nothing is open.
std::variant<Fitted, DoesNotFit> compile_to_fit(const graph::ModelGraphs& model,
                                                const plan::Plan& plan,
                                                const machine::Target& target,
                                                const PassOptions& options = {});

/// Finishes a compilation that has begun, for ranks that have so many bytes where the plan states
/// no limit. Nothing is chosen unless the programs of the plan as it is need more. Each program is
/// completed once.
std::variant<Fitted, DoesNotFit> finish_to_fit(Compilation& begun, const graph::ModelGraphs& model,
                                               const plan::Plan& plan,
                                               const machine::Target& target,
                                               std::optional<std::int64_t> most_bytes,
                                               const PassOptions& options);

}  // namespace fourfold::compile
