// The loss on the validation split, by the bundle's program "evaluate".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/source.h"
#include "run/executor.h"
#include "train/observer.h"

namespace fourfold::train {

/// How many runs of a program of evaluation see the whole split once.
std::int64_t validation_batches(const program::Program& evaluate, const data::Source& source);

/// `wanted` of `total` batches, evenly spread, the first among them; all of them when none is
/// wanted or there are fewer.
std::vector<std::int64_t> spread_batches(std::int64_t total, std::optional<std::int64_t> wanted);

/// How many batches an evaluation takes of the split, evenly spread. A batch has as many samples as
/// a step of training has, whatever the grid, so that all grids look at the same ones.
struct EvaluationSize {
  std::int64_t batch_samples = 1;
  std::optional<std::int64_t> batches;   // none: all
  std::optional<std::int64_t> compared;  // that every evaluation of the run takes; none: all
};

/// Mean loss over those batches, each in as many runs of "evaluate" as it takes. Labels of -1 count
/// for nothing, and so do samples that a run has beyond its batch. Weights and moments stay as they
/// are. The compared batches are some of those taken, or the same. `must_end` is asked before each
/// run, on all ranks together; nothing is returned once it says so.
std::optional<Evaluation> evaluate(run::Executor& executor, const data::Source& source,
                                   EvaluationSize size, const std::function<bool()>& must_end = {});

}  // namespace fourfold::train
