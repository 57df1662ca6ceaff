// The element of each row of op/optimizers.h, written once for all backends. Its numbers are made
// once a step, in double, and kept in S, the type that a backend computes in.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/on_device.h"
#include "op/optimizers.h"

namespace fourfold::kernels {

/// The numbers of a step that an update reads.
struct UpdateStep {
  double lr, scale;
  std::int64_t updates;  // that were written before
};

/// Update<Row, S>(row, step)(grad, weight, moments...) changes the moments of an element and
/// returns its new weight, finite or not.
template <class Row, class S>
struct Update;

template <class S>
struct Update<op::AdamW, S> {
  S gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  S keep, step_size, inverse_root, epsilon;

  Update() = default;
  FOURFOLD_CUDA Update(const op::AdamW& op, const UpdateStep& step) {
    const auto t = static_cast<double>(step.updates) + 1;
    gradient_scale = static_cast<S>(step.scale);
    beta1 = static_cast<S>(op.beta1);
    one_minus_beta1 = static_cast<S>(1 - op.beta1);
    beta2 = static_cast<S>(op.beta2);
    one_minus_beta2 = static_cast<S>(1 - op.beta2);
    keep = static_cast<S>(1 - step.lr * op.weight_decay);
    step_size = static_cast<S>(step.lr / (1 - std::pow(op.beta1, t)));
    inverse_root = static_cast<S>(1 / std::sqrt(1 - std::pow(op.beta2, t)));
    epsilon = static_cast<S>(op.epsilon);
  }

  FOURFOLD_CUDA S operator()(S grad, S weight, S& m, S& v) const {
    const S g = gradient_scale * grad;
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    return keep * weight - step_size * m / (std::sqrt(v) * inverse_root + epsilon);
  }
};

template <class S>
struct Update<op::Sgd, S> {
  S gradient_scale, weight_decay, mu;
  S step_size, gradient_step;  // the latter is 0 without nesterov

  Update() = default;
  FOURFOLD_CUDA Update(const op::Sgd& op, const UpdateStep& step) {
    gradient_scale = static_cast<S>(step.scale);
    weight_decay = static_cast<S>(op.weight_decay);
    mu = static_cast<S>(op.mu);
    step_size = static_cast<S>(op.nesterov ? step.lr * op.mu : step.lr);
    gradient_step = static_cast<S>(op.nesterov ? step.lr : 0);
  }

  FOURFOLD_CUDA S operator()(S grad, S weight, S& momentum) const {
    const S g = gradient_scale * grad + weight_decay * weight;
    momentum = mu * momentum + g;
    return weight - (step_size * momentum + gradient_step * g);
  }
};

template <class S>
struct Update<op::Lion, S> {
  S gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  S keep, lr;

  Update() = default;
  FOURFOLD_CUDA Update(const op::Lion& op, const UpdateStep& step) {
    gradient_scale = static_cast<S>(step.scale);
    beta1 = static_cast<S>(op.beta1);
    one_minus_beta1 = static_cast<S>(1 - op.beta1);
    beta2 = static_cast<S>(op.beta2);
    one_minus_beta2 = static_cast<S>(1 - op.beta2);
    keep = static_cast<S>(1 - step.lr * op.weight_decay);
    lr = static_cast<S>(step.lr);
  }

  FOURFOLD_CUDA S operator()(S grad, S weight, S& m) const {
    const S g = gradient_scale * grad;
    const S direction = beta1 * m + one_minus_beta1 * g;
    m = beta2 * m + one_minus_beta2 * g;
    const S sign = (direction > 0 ? S(1) : S(0)) - (direction < 0 ? S(1) : S(0));
    return keep * weight - lr * sign;
  }
};

}  // namespace fourfold::kernels
