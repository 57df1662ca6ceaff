// Small jobs made up from seeds, compiled: all that a user may choose, with sizes for which a
// program over residues is quick. The choices are those of support/layouts.h.
#pragma once

#include <cstdint>
#include <string>

#include "compile/compile.h"
#include "graph/graph.h"
#include "program/job.h"
#include "support/small_run.h"

namespace fourfold::test {

/// What jobs are drawn from.
struct DrawLimits {
  std::int64_t most_ranks = 32;
  /// Jobs in float64 alone: what is compared to the last digits. Else one in five has bf16.
  bool is_exact = false;
};

/// A job and the configuration that it was compiled from.
struct DrawnJob {
  std::uint64_t seed = 0;
  std::string name;  // the choices that are not the usual ones
  RunSetup setup;
  bool reads_averages = false;  // evaluations use the averages of weights
  program::Job job;
};

/// The job of a seed. Draws again until there is a plan; the same seed gives the same job.
DrawnJob draw_job(std::uint64_t seed, const DrawLimits& limits = {});

/// The graphs from which the serial program of a drawn job is made: "train" has all samples of a
/// step at once.
graph::ModelGraphs serial_graphs(const DrawnJob& drawn);

}  // namespace fourfold::test
