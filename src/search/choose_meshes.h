// Pipelines in which each stage has a mesh of its own: found from the best ones of equal meshes, a
// stage at a time. Not their price as a whole: rank_grids.h.
#pragma once

#include <vector>

#include "search/count_stages.h"
#include "search/price.h"
#include "search/rank_grids.h"

namespace fourfold::search {

class BuiltGraphs;

/// A plan and what its stages ask for.
struct StagesWithMeshes {
  plan::PlanSpec spec;  // with the grids of all stages and their layers; its grid is the first one
  CountedStages stages;
};

/// Pipelines with as many stages and samples of a micro-batch as a plan of equal meshes has, which
/// is one of the best of those; of a few ranks with any number of samples. Layers and ranks as they
/// take least by work alone (divide_ranks.h), and then, for each stage by itself, the grid that
/// computes and sends least in the memory of a rank. Where a mesh has more than a few ranks, only
/// grids are looked at that differ from the plan's in two axes at most. None where a mesh has less
/// than a rank, or there are more than 16 stages. Cost: a plan of a small model for each grid that
/// is looked at.
std::vector<StagesWithMeshes> choose_meshes(const Question& question, BuiltGraphs& graphs,
                                            Pricer& pricer, const PricedPlan& equal,
                                            double memory_bytes);

}  // namespace fourfold::search
