// The graphs that a settled run computes, before they are planned.
#pragma once

#include <cstdint>

#include "config/settled.h"
#include "graph/graph.h"

namespace fourfold::job {

/// Which graphs of the model a job needs. A run that shows no sample has none for writing text, and
/// no cache.
enum class Graphs : std::uint8_t { of_run, generation, evaluation };

/// The graphs as its ranks compute them, one micro-batch or chunk at a time. Errors: InternalError
/// where the batch cannot be divided as the plan says, which a settled run excludes.
graph::ModelGraphs build_graphs(const config::Settled& settled, Graphs which = Graphs::of_run);
/// The same, but for training, which has all samples of a step at once.
graph::ModelGraphs build_serial_graphs(const config::Settled& settled,
                                       Graphs which = Graphs::of_run);

}  // namespace fourfold::job
