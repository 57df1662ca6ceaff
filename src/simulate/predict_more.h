// The step of a pipeline of many micro-batches, from a simulation of the same one with few: once
// all meshes are busy it repeats itself, and each micro-batch more takes one period more
// (Zhuang et al. 2023, arXiv:2211.05322, derive that of equal stages; this one is observed). Not
// the choice how few are enough, nor how the memory grows with them.
#pragma once

#include <cstdint>
#include <optional>

#include "simulate/prediction.h"

namespace fourfold::simulate {

/// What a pipeline repeats while all its meshes are busy.
struct Cycle {
  std::int64_t micros = 1;  // that it has, where a schedule does several in turns of unlike length
  double period_s = 0;      // for each of them
};

/// The cycle of a training step, if it has one: the least number of micro-batches that three times
/// in a row, on each mesh, take the same time but for half a hundredth. Its period is that of the
/// slowest mesh; others may be 1 % faster while they work off what waits for them. Of a schedule
/// that does all forward tasks before the backward ones each pass has a period, and this is their
/// sum.
/// Cost: linear in the tasks that were followed, times the micro-batches of the cycle.
std::optional<Cycle> find_cycle(const program::Job& job, const Simulation& simulation);

/// What predict would say of the job with `micros` micro-batches, at least as many as it has: its
/// cycle goes on. Memory is that of the job as it is. Nothing where there is no cycle.
std::optional<Prediction> predict_more(const program::Job& job, const Simulation& simulation,
                                       std::int64_t micros);

}  // namespace fourfold::simulate
