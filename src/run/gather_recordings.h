// Brings the times that all ranks have recorded to the first one, on one clock.
#pragma once

#include <vector>

#include "comm/world.h"
#include "trace/make_timeline.h"

namespace fourfold::run {

/// The recordings of all ranks, by rank, on rank 0; empty on the others. All ranks call it
/// together, between programs; `world` is null where this rank is alone. Errors: Aborted.
std::vector<trace::Recording> gather_recordings(const trace::Recorder& recorder,
                                                comm::World* world);

}  // namespace fourfold::run
