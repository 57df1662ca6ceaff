// The decision whether an update is applied, and its scale: computed in double the same way on
// every backend.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/on_device.h"
#include "op/blocks.h"
#include "op/ops.h"

namespace fourfold::kernels {

/// What op::Vote finds: whether nothing speaks against the update.
FOURFOLD_CUDA inline bool is_fit(double squared_norm, double loss_sum, std::int64_t valid_count,
                                 std::int64_t non_finite, double lr) {
  return std::isfinite(squared_norm) && std::isfinite(loss_sum) && std::isfinite(lr) &&
         valid_count > 0 && non_finite == 0;
}

struct UpdateDecision {
  double grad_norm, scale;
  std::int64_t applied;
};

/// What op::UpdateControl decides.
FOURFOLD_CUDA inline UpdateDecision decide_update(const op::UpdateControl& op, double squared_norm,
                                                  std::int64_t valid_count,
                                                  const op::Votes& votes) {
  const double factor =
      valid_count > 0 ? static_cast<double>(op.nominal_count) / static_cast<double>(valid_count)
                      : 0;
  UpdateDecision decision{};
  decision.grad_norm = factor * std::sqrt(squared_norm);
  // PyTorch's clip_grad_norm_ adds 1e-6 to the norm.
  const double clipping = op.clip > 0 ? std::min(1.0, op.clip / (decision.grad_norm + 1e-6)) : 1.0;
  decision.scale = factor * clipping;
  decision.applied = votes.against == 0 ? 1 : 0;
  return decision;
}

}  // namespace fourfold::kernels
