// Which elements dropout drops: one definition for every backend, so that masks are the same bits
// everywhere.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "kernels/on_device.h"
#include "kernels/qkv_sizes.h"
#include "kernels/step_elements.h"
#include "op/ops.h"

namespace fourfold::kernels {

/// A word below this drops its element: rate * 2^32 rounded to the nearest integer, at most 2^32
/// - 1.
inline std::uint32_t dropout_threshold(double rate) {
  const double scaled = std::nearbyint(rate * 0x1p32);
  return scaled >= 0x1p32 ? 0xffffffffU : static_cast<std::uint32_t>(scaled);
}

/// The decisions of one stream in one step.
struct DropoutMask {
  Random random;
  std::uint32_t step;
  std::uint32_t threshold;

  /// `step` as it stands in the step block; Philox takes its low 32 bits.
  DropoutMask(RandomStream stream, double rate, std::uint64_t seed, std::int64_t step_index)
      : random(seed, stream),
        step(static_cast<std::uint32_t>(step_index)),
        threshold(dropout_threshold(rate)) {}

  bool dropped(std::uint64_t element) const {
    return random.words(element / 4, step)[element % 4] < threshold;
  }
};

/// Where the rows of attention probabilities lie among the elements of a step: (sample, head, t,
/// s).
struct AttentionElements {
  std::uint64_t heads, first_head, time;

  FOURFOLD_CUDA std::uint64_t row(std::uint64_t sample, std::int64_t head, std::int64_t t) const {
    const std::uint64_t global_head = first_head + static_cast<std::uint64_t>(head);
    return ((sample * heads + global_head) * time + static_cast<std::uint64_t>(t)) * time;
  }
};

/// `heads` of the op, groups where it is grouped, or the local number where the op does not say.
template <class AttentionOp>
AttentionElements attention_elements(const AttentionOp& op, const Shape& qkv) {
  const QkvSizes sizes(qkv, op.grouped);
  const auto of_group = static_cast<std::uint64_t>(sizes.of_group);
  return {static_cast<std::uint64_t>(op.heads == 0 ? sizes.groups : op.heads) * of_group,
          static_cast<std::uint64_t>(op.first_head) * of_group,
          static_cast<std::uint64_t>(sizes.time)};
}

}  // namespace fourfold::kernels
