// Which part of a step's samples or of a tensor is here: for ops that count over all ranks.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace fourfold::op {

/// Where samples of this rank lie among those of a step: local sample b of micro-batch m is sample
/// m * samples + first + b. `samples` counts the micro-batch over all ranks. Where a micro-batch is
/// processed in chunks, `first` is that of the chunk.
struct SampleWindow {
  std::int64_t micro = 0;
  std::int64_t samples = 0;
  std::int64_t first = 0;
  std::int64_t chunk = 0;
  bool operator==(const SampleWindow&) const = default;
};

/// Which part of a tensor of shape `global` a rank's local tensor is: it holds the elements of
/// index first[d] + local index[d]. Indices from global[d] on are padding. Both shapes empty: the
/// local tensor is the whole one.
struct TensorWindow {
  Shape global, first;
  bool operator==(const TensorWindow&) const = default;
};

}  // namespace fourfold::op
