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
#include "op/window.h"

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

/// out = op(A) op(B), A and B seen as matrices: their first `a_rows` (`b_rows`) dims form the row
/// index, the rest the column index; op transposes where asked. out has the dims of op(A)'s rows,
/// then those of op(B)'s columns. `accumulate` adds to out instead of overwriting it. `unrounded`
/// leaves out in the type of the sums, accumulation_type of the operands': the gradient of a
/// weight.
struct Matmul {
  std::int64_t a_rows = 1, b_rows = 1;
  bool transpose_a = false, transpose_b = false, accumulate = false, unrounded = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("a_rows", self.a_rows);
    visit("b_rows", self.b_rows);
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
    visit("accumulate", self.accumulate);
    visit("unrounded", self.unrounded);
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
/// t): deterministic. `rows` is the number of local rows; tokens of other rows are skipped.
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

/// y[b,t,:] = x[b,t,:] + table[start + first + t, :]; start is the scalar operand `position` where
/// `cached`, else 0; `first` is the position of the first local row (a cut of T). With `documents`
/// positions restart in each: the row is first + t - document_starts[b,t] (see Attention). Requires
/// first + T <= P; not `cached` and `documents` together.
struct AddPositions {
  bool cached = false;
  std::int64_t first = 0;
  bool documents = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("cached", self.cached);
    visit("first", self.first);
    visit("documents", self.documents);
  }
  FOURFOLD_OP_ROW(AddPositions, "add_positions");
};

/// table_grad[first + t,:] (+)= sum over b of y_grad[b,t,:]; the other ones of the `rows` rows get
/// nothing (zero when overwriting). `first` is the position of the first local row of y_grad, so
/// that ranks which cut T give terms of a sum. With `documents` the row is that of add_positions,
/// its terms added in order of (b, t). Requires first + T <= rows.
struct PositionsGradient {
  std::int64_t rows = 0, first = 0;
  bool accumulate = false;
  bool documents = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("rows", self.rows);
    visit("first", self.first);
    visit("accumulate", self.accumulate);
    visit("documents", self.documents);
  }
  FOURFOLD_OP_ROW(PositionsGradient, "positions_gradient");
};

/// y = x / (1 - rate) where kept, else 0. Element i of the step is dropped when word (i mod 4) of
/// Philox(seed, stream; element i / 4, step) is below rate * 2^32; i counts over (sample, the other
/// dims). Its own gradient: dropout of y_grad with the same attributes. x (B, ...). `window` says
/// which samples these are, `part` which part of the dims behind (it has one dim less than x) and
/// has no padding: a cut leaves the mask unchanged.
struct Dropout {
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("stream", self.stream);
    visit("rate", self.rate);
    visit("window", self.window);
    visit("part", self.part);
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

// Layer norm where ranks share C: moments of blocks, gathered, then merged. The number of blocks is
// an attribute of the graph and not of the grid, so every grid computes the same function.

/// moments[p] = (mean, sum of squared distances from it) of block p of the last dim of x, cut into
/// `parts` blocks of equal size: x (..., C), moments (parts, ..., 2). Corrected two-pass (Chan,
/// Golub, LeVeque 1983, "Algorithms for computing the sample variance"). `parts` counts the local
/// blocks. Requires that it divides the local C.
struct LayerNormMoments {
  std::int64_t parts = 1;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("parts", self.parts);
  }
  FOURFOLD_OP_ROW(LayerNormMoments, "layer_norm_moments");
};

/// As layer_norm, the statistics merged from all moments (parts, ..., 2), in index order by the
/// pairwise formula of Chan, Golub, LeVeque 1983. `width` is C over all ranks; x, gain and bias may
/// be parts. Requires that parts divide width.
struct LayerNormApply {
  double epsilon = 1e-5;
  bool bias = true;
  std::int64_t width = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("epsilon", self.epsilon);
    visit("bias", self.bias);
    visit("width", self.width);
  }
  FOURFOLD_OP_ROW(LayerNormApply, "layer_norm_apply");
};

/// sums (..., 2) = the sums over local channels of y_grad gain and of y_grad gain (x - mean) rstd:
/// terms of the sums over C.
struct LayerNormGradientSums {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(LayerNormGradientSums, "layer_norm_gradient_sums");
};

/// x_grad from x, gain, mean, rstd, y_grad and the sums over all of C; `width` is C over all ranks.
struct LayerNormGradientApply {
  std::int64_t width = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("width", self.width);
  }
  FOURFOLD_OP_ROW(LayerNormGradientApply, "layer_norm_gradient_apply");
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

/// y = x rounded to the type of the computation, to nearest even; x has the type of its sums: the
/// bf16 copy of float32 weights. Where both are one type it is a copy, and compile/ makes none.
struct Cast {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(Cast, "cast");
};

/// cast of several tensors, each as op::Cast has it. Reads all x, writes all y. Its factor rule is
/// that of its parts (op::parts).
struct CastList {
  std::int64_t tensors = 1;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("tensors", self.tensors);
  }
  /// `tensors`, within what a program can have: a text may claim anything.
  std::int64_t count() const;
  FOURFOLD_OP_ROW(CastList, "cast_list");
};

/// y = a + b. The computation may also be in i64 or u64: counters and digests.
struct Add {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(Add, "add");
};

/// Causal self-attention of every head: y[b,t,h,:] = sum over s <= t of p[b,h,t,s] v[b,s,h,:], p
/// the softmax over s of q k / sqrt(D), then dropout of p at `rate`. qkv (B,T,3,H,D), y (B,T,H,D);
/// lse (B,H,T) = log sum exp of the scaled scores. Vaswani et al. 2017 (arXiv:1706.03762), eq 1.
/// Element (sample, h, t, s) of p counts for dropout. `first_head` and `heads`: which heads of the
/// model these are (a cut over heads leaves the mask unchanged). With `documents` the operand
/// document_starts (B,T) says where the document of token t begins in its sample, and s runs from
/// there on: no token sees another document. Requires document_starts[b,t] in 0 ... t, not falling
/// along t. Flops are those of samples of one document: how they are cut is not known beforehand.
struct Attention {
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  std::int64_t first_head = 0, heads = 0;
  bool documents = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("stream", self.stream);
    visit("rate", self.rate);
    visit("window", self.window);
    visit("first_head", self.first_head);
    visit("heads", self.heads);
    visit("documents", self.documents);
  }
  FOURFOLD_OP_ROW(Attention, "attention");
};

/// qkv_grad from qkv, y, lse, y_grad; the same attributes as the forward op. Recomputes p from lse.
struct AttentionGradient {
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  std::int64_t first_head = 0, heads = 0;
  bool documents = false;
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

// Cross entropy where ranks share V: a local column v is column first_column + v of the vocabulary.
// Columns from `columns` on, the size of the vocabulary, are padding; `columns` 0: there is none.

/// max[b,t] = the largest of the local logits, -infinity where all columns are padding. Columns cut
/// over ranks make it a partial maximum.
struct LogitMax {
  std::int64_t first_column = 0, columns = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("first_column", self.first_column);
    visit("columns", self.columns);
  }
  FOURFOLD_OP_ROW(LogitMax, "logit_max");
};

/// sum_exp = sum over local columns of exp(logits - max); label_logit = logits[label] - max, 0
/// where the label is -1 or not here. Partial sums of what cross_entropy_merge reads. The maximum
/// is subtracted already, so that the loss is not a difference of large numbers.
struct LogitSums {
  std::int64_t first_column = 0, columns = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LogitMax::fields(self, visit);
  }
  FOURFOLD_OP_ROW(LogitSums, "logit_sums");
};

/// token_loss and lse as cross_entropy gives them, from max, sum_exp, label_logit and labels:
/// token_loss = log(sum_exp) - label_logit, lse = max + log(sum_exp).
struct CrossEntropyMerge {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(CrossEntropyMerge, "cross_entropy_merge");
};

/// logits_grad = scale * (exp(logits - lse) - [first_column + v = label]), 0 where label is -1 and
/// in padding.
struct CrossEntropyGradient {
  double scale = 1;
  std::int64_t first_column = 0, columns = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("scale", self.scale);
    LogitMax::fields(self, visit);
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

/// sum (+)= sum of squares of x, in double; of several tensors one after another (op::parts).
struct SquaredNorm {
  bool accumulate = false;
  std::int64_t tensors = 1;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("accumulate", self.accumulate);
    visit("tensors", self.tensors);
  }
  FOURFOLD_OP_ROW(SquaredNorm, "squared_norm");
};

/// count (+)= number of elements of x that are NaN or infinite; of several tensors likewise.
struct CountNonFinite {
  bool accumulate = false;
  std::int64_t tensors = 1;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("accumulate", self.accumulate);
    visit("tensors", self.tensors);
  }
  FOURFOLD_OP_ROW(CountNonFinite, "count_non_finite");
};

/// This rank's term of the votes (op::Votes): that of its host, and one against the update unless
/// squared_norm, loss_sum and lr are finite, token_count > 0 and no state element is non-finite.
/// Ranks that hold replicas may disagree where a memory is faulty, so all of them are asked.
struct Vote {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(Vote, "vote");
};

/// Scales the update, and applies it if no rank voted against. With f = nominal_tokens /
/// token_count (0 without tokens):
///   grad_norm = f sqrt(squared_norm),   scale = f min(1, clip / (grad_norm + 1e-6))   (clip 0: no
///   clipping), applied = 1 or 0.
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

/// adamw of several tensors, each as op::AdamW has it: the first `decayed` of them with the weight
/// decay, the others without. Reads lr, scale, applied, updates and all grads; updates weight, m
/// and v of each tensor. Its factor rule is that of its parts (op::parts).
struct AdamWList {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0;
  std::int64_t tensors = 1, decayed = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    AdamW::fields(self, visit);
    visit("tensors", self.tensors);
    visit("decayed", self.decayed);
  }
  /// `tensors`, within what a program can have: a text may claim anything.
  std::int64_t count() const;
  /// The update of tensor number `index`.
  AdamW one(std::int64_t index) const;
  /// Places of the operands of tensor number `index`, in the order of op::AdamW's.
  std::vector<std::size_t> operands_of(std::int64_t index) const;
  FOURFOLD_OP_ROW(AdamWList, "adamw_list");
};

/// updates += applied: Adam's t, kept on the device.
struct CountUpdate {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  FOURFOLD_OP_ROW(CountUpdate, "count_update");
};

/// x[i] = stddev * normal(seed, stream; element i, step 0), computed in double, i the index in the
/// global tensor, of which `part` says what is here; 0 in padding. `shape` is the local one.
struct InitNormal {
  RandomStream stream;
  double stddev = 1;
  Shape shape;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("stream", self.stream);
    visit("stddev", self.stddev);
    visit("shape", self.shape);
    visit("part", self.part);
  }
  FOURFOLD_OP_ROW(InitNormal, "init_normal");
};

/// x = value everywhere, rounded to the computation's dtype, which may also be i64 or u64.
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

/// digest = sum mod 2^64 over elements of lo(x) hi(x), x = (stream + i g) xor (bits 0x9E3779B1), lo
/// and hi its halves: free of layout and order. i is the index in the global tensor, of which
/// `part` says what is here, g 0x9E3779B97F4A7C15; bits are zero-extended, padding does not count.
struct Digest {
  RandomStream stream;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("stream", self.stream);
    visit("part", self.part);
  }
  FOURFOLD_OP_ROW(Digest, "digest");
};

}  // namespace fourfold::op
