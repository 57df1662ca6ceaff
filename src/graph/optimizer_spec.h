// What the update does: filled by config/, read by graph/.
#pragma once

#include <cstdint>

namespace fourfold::graph {

enum class Optimizer : std::uint8_t { adamw, sgd };

/// AdamW (Loshchilov, Hutter 2019), or SGD with momentum. Weight decay applies to tensors with two
/// or more logical dims (matrices and embeddings), not to biases and gains: AdamW takes it off the
/// weight, SGD adds it to the gradient.
struct OptimizerSpec {
  Optimizer kind = Optimizer::adamw;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // of AdamW
  double momentum = 0.9;                             // of SGD
  bool nesterov = false;                             // of SGD
  double weight_decay = 0.1;
  double grad_clip = 1.0;  // largest global gradient norm; 0: no clipping
  bool operator==(const OptimizerSpec&) const = default;
};

}  // namespace fourfold::graph
