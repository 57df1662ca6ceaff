// What the user fixes about the plan: filled by config/, read by plan/.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace fourfold::plan {

/// Activation checkpointing: keep the input of every `blocks` blocks and recompute the rest in the
/// backward pass; 0 keeps everything ("none"), 1 is "full".
struct Checkpointing {
  std::int64_t blocks = 0;
  bool operator==(const Checkpointing&) const = default;
};

struct PlanSpec {
  std::int64_t global_batch_size = 12;  // samples of a step
  std::int64_t micro_batch_size = 12;   // samples that one rank processes at once
  std::int64_t seq_length = 64;         // tokens of a sample
  Checkpointing checkpointing = {};
  DType compute = DType::f32;
  bool operator==(const PlanSpec&) const = default;
};

}  // namespace fourfold::plan
