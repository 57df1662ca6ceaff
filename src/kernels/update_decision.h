// The scalars of an update, computed in double the same way on every backend.
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

/// What an update is told of the step.
struct UpdateStep {
  double lr, scale;
  std::int64_t updates;  // that were written before
};

/// Scalars of one AdamW step. With them, for g = gradient_scale * grad:
///   m = beta1 m + one_minus_beta1 g;   v = beta2 v + one_minus_beta2 g^2;
///   w = keep w - step_size m / (sqrt(v) * inverse_root + epsilon).
struct AdamWScalars {
  double gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  double keep, step_size, inverse_root, epsilon;
};

FOURFOLD_CUDA inline AdamWScalars scalars_of(const op::AdamW& op, const UpdateStep& step) {
  const auto t = static_cast<double>(step.updates) + 1;
  return {.gradient_scale = step.scale,
          .beta1 = op.beta1,
          .one_minus_beta1 = 1 - op.beta1,
          .beta2 = op.beta2,
          .one_minus_beta2 = 1 - op.beta2,
          .keep = 1 - step.lr * op.weight_decay,
          .step_size = step.lr / (1 - std::pow(op.beta1, t)),
          .inverse_root = 1 / std::sqrt(1 - std::pow(op.beta2, t)),
          .epsilon = op.epsilon};
}

/// Scalars of one step of SGD. With them:
///   g = gradient_scale * grad + weight_decay w;   momentum = mu momentum + g;
///   w = w - (step_size momentum + gradient_step g),
/// the last of them 0 without nesterov.
struct SgdScalars {
  double gradient_scale, weight_decay, mu, step_size, gradient_step;
};

FOURFOLD_CUDA inline SgdScalars scalars_of(const op::Sgd& op, const UpdateStep& step) {
  return {.gradient_scale = step.scale,
          .weight_decay = op.weight_decay,
          .mu = op.mu,
          .step_size = op.nesterov ? step.lr * op.mu : step.lr,
          .gradient_step = op.nesterov ? step.lr : 0};
}

}  // namespace fourfold::kernels
