// What the update does: filled by config/, read by graph/.
#pragma once

namespace fourfold::graph {

/// AdamW (Loshchilov, Hutter 2019). Weight decay applies to tensors with two or more logical dims
/// (matrices and embeddings), not to biases and gains.
struct AdamWSpec {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
  double grad_clip = 1.0;  // largest global gradient norm; 0: no clipping
  bool operator==(const AdamWSpec&) const = default;
};

}  // namespace fourfold::graph
