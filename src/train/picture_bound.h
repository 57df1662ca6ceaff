// The bound on the bits of pictures by a model of diffusion, with the bundle's program "bound".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/source.h"
#include "run/executor.h"

namespace fourfold::train {

struct PictureBound {
  std::int64_t pictures = 0;
  std::vector<double> by_time;  // bits for each element, the mean of all pictures

  /// Bits for each element of a picture: the variational bound, the sum over all times (Ho et al.
  /// 2020, eq. 5).
  double bits() const;
};

/// Called after each run with the part that is done and the number of pictures there are.
using OnBound = std::function<void(double done, std::int64_t pictures)>;

/// Judges the validation pictures of a source, or `most` of them, evenly spread in whole batches
/// but the last. Noise is drawn with step.seed 0 and step.step the time, so that two models are
/// judged on the same. Cost: a run of the model for each batch and time.
PictureBound bound_of_pictures(run::Executor& executor, const data::Source& source,
                               std::int64_t times, std::optional<std::int64_t> most,
                               const OnBound& on_bound = {});

}  // namespace fourfold::train
