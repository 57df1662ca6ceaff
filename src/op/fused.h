// Rows that stand for several rows one after another (op::parts says which) and read each element
// once: only compile/ makes them. Letters as in ops.h; b, t are any dims before the last.
#pragma once

#include "op/ops.h"

namespace fourfold::op {

/// sum = x + bias, as op::AddBias; y = gelu(sum). The sum is what the gradient reads.
struct BiasGelu {
  FOURFOLD_OP_ROW(BiasGelu, "bias_gelu");
  std::vector<Part> parts() const;
};

/// A residual connection and the layer norm after it: sum = x + dropout(branch (+ branch_bias)),
/// then y, mean and rstd as op::LayerNorm of sum. x, branch, sum, y (b, t, C); biases and gain (C).
/// With a rate of 0 there is no dropout, and no operands seed and step.
struct AddLayerNorm {
  double epsilon = 1e-5;
  bool bias = true, branch_bias = false;
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    Dropout::places(self, visit);
  }
  FOURFOLD_OP_ROW(AddLayerNorm, "add_layer_norm", epsilon, bias, branch_bias, stream, rate, window,
                  part);
  std::vector<Part> parts() const;
};

/// The way back through op::AddLayerNorm: sum_grad = x_grad of op::LayerNormGradient (+ addend, the
/// gradient that went around the norm), branch_grad = dropout(sum_grad), which is an operand only
/// with a rate above 0.
struct AddLayerNormGradient {
  bool addend = true;
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    Dropout::places(self, visit);
  }
  FOURFOLD_OP_ROW(AddLayerNormGradient, "add_layer_norm_gradient", addend, stream, rate, window,
                  part);
  std::vector<Part> parts() const;
};

/// op::CrossEntropy and op::CrossEntropyGradient of a whole vocabulary; logits_grad may lie where
/// the logits are.
struct CrossEntropyBoth {
  double scale = 1;
  FOURFOLD_OP_ROW(CrossEntropyBoth, "cross_entropy_both", scale);
  std::int64_t integer_bound(Shapes all) const;
  std::vector<Part> parts() const;
};

/// FOURFOLD_FUSED_ROWS(ROW) is ROW(Type, class of its work) for each of the rows above.
#define FOURFOLD_FUSED_ROWS(ROW)       \
  ROW(BiasGelu, elementwise)           \
  ROW(AddLayerNorm, reduction)         \
  ROW(AddLayerNormGradient, reduction) \
  ROW(CrossEntropyBoth, reduction)

}  // namespace fourfold::op
