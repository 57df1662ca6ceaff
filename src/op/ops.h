// The rows of the op table: every operation there is, forward, backward and update alike.
// A row states operands and their roles, attributes, shape rule, factor rule and flops; see rule.h
// for their meaning. It knows nothing of gradients (graph/), addresses (program/) or how it is
// computed (kernels/).
//
// B batch (samples), T time, C channels (hidden), H heads, D head width, F ffn width, V vocabulary,
// P positions held, K contracted dims, N output dims. "..." any further dims. Shapes are what one
// rank holds.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "op/rule.h"

namespace fourfold::op {

using Shapes = std::span<const Shape>;

// Each row declares its rules in this form. `fields` visits every attribute once; printing, parsing
// and hashing follow.
#define FOURFOLD_OP_ROW(Type, text)                                 \
  static constexpr std::string_view name = text;                    \
  Operands operands() const;                                        \
  /* Shapes of the outputs; throws InternalError on bad inputs. */  \
  std::vector<Shape> outputs(Shapes reads) const;                   \
  FactorRule factors(Shapes reads) const;                           \
  /* Floating-point operations; `all` holds reads, then outputs. */ \
  double flops(Shapes all) const;                                   \
  bool operator==(const Type&) const = default

/// Where a micro-batch of this rank lies among the samples of a step: local sample b of micro-batch
/// m is sample m * samples + first + b. `samples` counts the micro-batch over all ranks.
struct SampleWindow {
  std::int64_t micro = 0;
  std::int64_t samples = 0;
  std::int64_t first = 0;
  bool operator==(const SampleWindow&) const = default;
};

/// out = op(A) op(B), A and B seen as matrices: their first `a_rows` (`b_rows`) dims form the row
/// index, the rest the column index; op transposes where asked. out has the dims of op(A)'s rows,
/// then those of op(B)'s columns. `accumulate` adds to out instead of overwriting it.
struct Matmul {
  std::int64_t a_rows = 1, b_rows = 1;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("a_rows", self.a_rows);
    visit("b_rows", self.b_rows);
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
    visit("accumulate", self.accumulate);
  }
  FOURFOLD_OP_ROW(Matmul, "matmul");
};

/// y[b,t,:] = table[token[b,t] - first_row, :], zero where the token's row is not in this table (a
/// cut vocabulary).
struct Embedding {
  std::int64_t first_row = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("first_row", self.first_row);
  }
  FOURFOLD_OP_ROW(Embedding, "embedding");
};

/// table_grad[v,:] (+)= sum of y_grad[b,t,:] over tokens equal to first_row + v, in order of (b,
/// t): deterministic.
struct EmbeddingGradient {
  std::int64_t rows = 0, first_row = 0;
  bool accumulate = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("rows", self.rows);
    visit("first_row", self.first_row);
    visit("accumulate", self.accumulate);
  }
  FOURFOLD_OP_ROW(EmbeddingGradient, "embedding_gradient");
};

/// y[b,t,:] = x[b,t,:] + table[start + t, :]; start is the scalar operand `position` where
/// `cached`, else 0.
struct AddPositions {
  bool cached = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("cached", self.cached);
  }
  FOURFOLD_OP_ROW(AddPositions, "add_positions");
};

/// table_grad[p,:] (+)= sum over b of y_grad[b,p,:] for p < T; rows from T on get nothing (zero
/// when overwriting).
struct PositionsGradient {
  std::int64_t rows = 0;
  bool accumulate = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("rows", self.rows);
    visit("accumulate", self.accumulate);
  }
  FOURFOLD_OP_ROW(PositionsGradient, "positions_gradient");
};

/// y = x / (1 - rate) where kept, else 0. Element i of the step is dropped when word (i mod 4) of
/// Philox(seed, stream; element i / 4, step) is below rate * 2^32; i counts over (sample, the other
/// dims). Its own gradient: dropout of y_grad with the same attributes. x (B, ...).
struct Dropout {
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("stream", self.stream);
    visit("rate", self.rate);
    visit("window", self.window);
  }
  FOURFOLD_OP_ROW(Dropout, "dropout");
};

/// y = (x - mean) * rstd * gain (+ bias) over the last dim; Ba, Kiros, Hinton 2016
/// (arXiv:1607.06450), eqs 3 and 4. Also gives mean and rstd (all dims but the last), for the
/// gradients. Two-pass variance, divisor C.
struct LayerNorm {
  double epsilon = 1e-5;
  bool bias = true;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("epsilon", self.epsilon);
    visit("bias", self.bias);
  }
  FOURFOLD_OP_ROW(LayerNorm, "layer_norm");
};

/// x_grad from x, gain, mean, rstd, y_grad.
struct LayerNormGradient {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(LayerNormGradient, "layer_norm_gradient");
};

/// gain_grad (+)= sum of y_grad * (x - mean) * rstd; bias_grad (+)= sum of y_grad; sums over all
/// dims but the last.
struct LayerNormWeightGradient {
  bool bias = true, accumulate = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("bias", self.bias);
    visit("accumulate", self.accumulate);
  }
  FOURFOLD_OP_ROW(LayerNormWeightGradient, "layer_norm_weight_gradient");
};

/// y[..., n] = x[..., n] + bias[n], bias having any number of dims.
struct AddBias {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(AddBias, "add_bias");
};

/// bias_grad[n] (+)= sum of y_grad[..., n] over its first `summed_dims` dims.
struct BiasGradient {
  std::int64_t summed_dims = 1;
  bool accumulate = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("summed_dims", self.summed_dims);
    visit("accumulate", self.accumulate);
  }
  FOURFOLD_OP_ROW(BiasGradient, "bias_gradient");
};

/// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); Hendrycks, Gimpel 2016 (arXiv:1606.08415), as
/// GPT-2 uses it.
struct Gelu {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(Gelu, "gelu");
};

/// x_grad = y_grad * dGelu(x).
struct GeluGradient {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(GeluGradient, "gelu_gradient");
};

/// y = a + b.
struct Add {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(Add, "add");
};

/// Causal self-attention of every head: y[b,t,h,:] = sum over s <= t of p[b,h,t,s] v[b,s,h,:], p
/// the softmax over s of q k / sqrt(D), then dropout of p at `rate`. qkv (B,T,3,H,D), y (B,T,H,D);
/// lse (B,H,T) = log sum exp of the scaled scores. Vaswani et al. 2017 (arXiv:1706.03762), eq 1.
/// Element (sample, h, t, s) of p counts for dropout. `first_head` and `heads`: which heads of the
/// model these are (a cut over heads leaves the mask unchanged).
struct Attention {
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  std::int64_t first_head = 0, heads = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("stream", self.stream);
    visit("rate", self.rate);
    visit("window", self.window);
    visit("first_head", self.first_head);
    visit("heads", self.heads);
  }
  FOURFOLD_OP_ROW(Attention, "attention");
};

/// qkv_grad from qkv, y, lse, y_grad; the same attributes as the forward op. Recomputes p from lse.
struct AttentionGradient {
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  std::int64_t first_head = 0, heads = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    Attention::fields(self, visit);
  }
  FOURFOLD_OP_ROW(AttentionGradient, "attention_gradient");
};

/// Attention that continues a text: writes k and v of the T new tokens to cache (B,2,P,H,D) at
/// `position`..., then attends over positions 0 ... position + t. qkv (B,T,3,H,D), y (B,T,H,D).
/// Requires position + T <= P. No dropout.
struct AttentionCached {
  std::int64_t positions = 0;  // P
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("positions", self.positions);
  }
  FOURFOLD_OP_ROW(AttentionCached, "attention_cached");
};

/// y[b,0,:] = x[b,index,:], index a scalar operand: x (B,T,C), y (B,1,C).
struct TakePosition {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(TakePosition, "take_position");
};

/// token_loss[b,t] = lse - logits[b,t,label], 0 where label is -1; lse = log sum exp of
/// logits[b,t,:].
struct CrossEntropy {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(CrossEntropy, "cross_entropy");
};

/// logits_grad = scale * (exp(logits - lse) - [v = label]), 0 where label is -1.
struct CrossEntropyGradient {
  double scale = 1;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("scale", self.scale);
  }
  FOURFOLD_OP_ROW(CrossEntropyGradient, "cross_entropy_gradient");
};

/// loss_sum (+)= sum of token_loss in double; count (+)= number of labels that are not -1.
struct LossSum {
  bool accumulate = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("accumulate", self.accumulate);
  }
  FOURFOLD_OP_ROW(LossSum, "loss_sum");
};

/// sum (+)= sum of squares of x, in double.
struct SquaredNorm {
  bool accumulate = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("accumulate", self.accumulate);
  }
  FOURFOLD_OP_ROW(SquaredNorm, "squared_norm");
};

/// count (+)= number of elements of x that are NaN or infinite.
struct CountNonFinite {
  bool accumulate = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("accumulate", self.accumulate);
  }
  FOURFOLD_OP_ROW(CountNonFinite, "count_non_finite");
};

/// Decides about the update once all gradients are reduced. With f = nominal_tokens / token_count:
///   grad_norm = f sqrt(squared_norm),   scale = f min(1, clip / (grad_norm + 1e-6))   (clip 0: no
///   clipping), applied = 1 when loss, norm and lr are finite, token_count > 0 and no state element
///   is non-finite, else 0.
struct UpdateControl {
  std::int64_t nominal_tokens = 1;
  double clip = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("nominal_tokens", self.nominal_tokens);
    visit("clip", self.clip);
  }
  FOURFOLD_OP_ROW(UpdateControl, "update_control");
};

/// Loshchilov, Hutter 2019 (arXiv:1711.05101), algorithm 2, with g = scale * grad and t = updates +
/// 1:
///   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;
///   w = w (1 - lr decay) - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + epsilon).
/// Writes nothing where applied = 0.
struct AdamW {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("epsilon", self.epsilon);
    visit("weight_decay", self.weight_decay);
  }
  FOURFOLD_OP_ROW(AdamW, "adamw");
};

/// updates += applied: Adam's t, kept on the device.
struct CountUpdate {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(CountUpdate, "count_update");
};

/// x[i] = stddev * normal(seed, stream; element i, step 0), computed in double, i the global
/// element index.
struct InitNormal {
  RandomStream stream;
  double stddev = 1;
  Shape shape;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("stream", self.stream);
    visit("stddev", self.stddev);
    visit("shape", self.shape);
  }
  FOURFOLD_OP_ROW(InitNormal, "init_normal");
};

/// x = value everywhere, rounded to the computation's dtype.
struct Fill {
  double value = 0;
  Shape shape;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("value", self.value);
    visit("shape", self.shape);
  }
  FOURFOLD_OP_ROW(Fill, "fill");
};

/// digest = sum mod 2^64 over elements of fin((stream + i * g) xor fin(bits)): free of layout and
/// order. i is the global index, fin SplitMix64's finaliser, g its increment 0x9E3779B97F4A7C15;
/// bits are zero-extended.
struct Digest {
  RandomStream stream;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("stream", self.stream);
  }
  FOURFOLD_OP_ROW(Digest, "digest");
};

#undef FOURFOLD_OP_ROW

}  // namespace fourfold::op
