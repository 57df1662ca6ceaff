// The rows of the op table: every operation there is, forward, backward and update alike.
// A row states operands and their roles, attributes, shape rule, factor rule and flops; see rule.h
// for their meaning. It knows nothing of gradients (graph/), addresses (program/) or how it is
// computed (kernels/).
//
// B batch (samples), T time, C channels (hidden), H heads, D head width, F ffn width, V vocabulary,
// P positions held, K contracted dims, N output dims. "..." any further dims. Shapes are what one
// rank holds. What an attribute `wide` names is kept in the type of sums, float32 beside bf16.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "op/attributes.h"
#include "op/place.h"
#include "op/residues.h"
#include "op/rule.h"
#include "op/window.h"

namespace fourfold::op {

using Shapes = std::span<const Shape>;
using Told = Place::Told;
struct CutForm;
struct Piece;

// Each row declares its rules in this form, with its name and the names of its attributes.
// `places`, where a row has it, visits those that say which share of a tensor or of the samples is
// here (place.h); binding, verifying and comparing ranks follow. A row may also have a `cut_form`,
// an `integer_bound` and `pieces`: table.h says what each means. `without_meaning`, where a row has
// it, names the operands and attributes that change nothing of what the row computes, with the
// reason.
#define FOURFOLD_OP_ROW(Type, text, ...)                                         \
  FOURFOLD_RULES_OF_ROW(Type, text, __VA_ARGS__)                                 \
  /* What it computes over residues (residues.h); `all` holds reads, outputs. */ \
  void residue_form(const Residues& residues, ResidueTensors all) const;         \
  FactorRule factors(Shapes reads) const
/* A row over a list of tensors, which stands for one row for each of them. */
#define FOURFOLD_LIST_ROW(Type, text, ...)       \
  FOURFOLD_RULES_OF_ROW(Type, text, __VA_ARGS__) \
  std::vector<Piece> pieces() const
#define FOURFOLD_RULES_OF_ROW(Type, text, ...)                       \
  FOURFOLD_ATTRIBUTES(__VA_ARGS__)                                   \
  static constexpr std::string_view name = text;                     \
  bool operator==(const Type&) const = default;                      \
  Operands operands() const;                                         \
  /* For as many reads as there are, of any shapes; never throws. */ \
  Outputs outputs(Shapes reads) const;                               \
  /* Floating-point operations; `all` holds reads, then outputs. */  \
  double flops(Shapes all) const;

/// out = op(A) op(B), A and B seen as matrices: their first `a_rows` (`b_rows`) dims form the row
/// index, the rest the column index; op transposes where asked. out has the dims of op(A)'s rows,
/// then those of op(B)'s columns. The first `batch` dims of A, B and out are common to all three
/// and stand before these: there is a product for each of their indices. `accumulate` adds to out
/// instead of overwriting it. `unrounded` leaves out in the type of the sums, accumulation_type of
/// the operands': the gradient of a weight.
struct Contract {
  std::int64_t a_rows = 1, b_rows = 1;
  bool transpose_a = false, transpose_b = false, accumulate = false, unrounded = false;
  std::int64_t batch = 0;
  FOURFOLD_OP_ROW(Contract, "contract", a_rows, b_rows, transpose_a, transpose_b, accumulate,
                  unrounded, batch);
};

/// y[b,t,:] = table[token[b,t] - first_row, :], zero where the token's row is not in this table (a
/// cut vocabulary).
struct Embedding {
  std::int64_t first_row = 0;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::first, "first_row", 1, 0}, self.first_row);
  }
  FOURFOLD_OP_ROW(Embedding, "embedding", first_row);
  std::int64_t integer_bound(Shapes all) const;
};

/// table_grad[v,:] (+)= sum of y_grad[b,t,:] over tokens equal to first_row + v, in order of (b,
/// t): deterministic. `rows` is the number of local rows; tokens of other rows are skipped. y_grad
/// may be `wide`.
struct EmbeddingGradient {
  std::int64_t rows = 0, first_row = 0;
  bool accumulate = false, wide = false;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::local_size, "rows", 2, 0}, self.rows);
    visit({Told::first, "first_row", 2, 0}, self.first_row);
  }
  FOURFOLD_OP_ROW(EmbeddingGradient, "embedding_gradient", rows, first_row, accumulate, wide);
  std::int64_t integer_bound(Shapes all) const;
};

/// y[b,t,:] = x[b,t,:] + table[start + first + t, :]; start is the scalar operand `position` where
/// `cached`, else 0; `first` is the position of the first local row (a cut of T). With `documents`
/// positions restart in each: the row is first + t - document_starts[b,t] (see Attention). Requires
/// first + T <= P; not `cached` and `documents` together. y may be `wide`, the sum of two rounded
/// numbers that is not rounded.
struct AddPositions {
  bool cached = false;
  std::int64_t first = 0;
  bool documents = false, wide = false;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::first, "first", 0, 1}, self.first);
  }
  FOURFOLD_OP_ROW(AddPositions, "add_positions", cached, first, documents, wide);
  std::int64_t integer_bound(Shapes all) const;
};

/// table_grad[first + t,:] (+)= sum over b of y_grad[b,t,:]; the other ones of the `rows` rows get
/// nothing (zero when overwriting). `first` is the position of the first local row of y_grad, so
/// that ranks which cut T give terms of a sum. With `documents` the row is that of add_positions,
/// its terms added in order of (b, t). Requires first + T <= rows. y_grad may be `wide`.
struct PositionsGradient {
  std::int64_t rows = 0, first = 0;
  bool accumulate = false;
  bool documents = false, wide = false;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::first, "first", 0, 1}, self.first);
  }
  FOURFOLD_OP_ROW(PositionsGradient, "positions_gradient", rows, first, accumulate, documents,
                  wide);
  std::int64_t integer_bound(Shapes all) const;
};

/// y = x / (1 - rate) where kept, else 0. Element i of the step is dropped when word (i mod 4) of
/// Philox(seed, stream; element i / 4, step) is below rate * 2^32; i counts over (sample, the other
/// dims). Its own gradient: dropout of y_grad with the same attributes. x (B, ...). `window` says
/// which samples these are, `part` which part of the dims after (it has one dim less than x) and
/// has no padding: a cut leaves the mask unchanged. x and y may be `wide`.
struct Dropout {
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  TensorWindow part = {};
  bool wide = false;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    if (self.rate == 0) return;
    visit({Told::samples, "window", 0}, self.window);
    visit({Told::window, "part", 0, 1}, self.part);
  }
  FOURFOLD_OP_ROW(Dropout, "dropout", stream, rate, window, part, wide);
};

/// y = (x - mean) * rstd * gain (+ bias) over the last dim; Ba, Kiros, Hinton 2016
/// (arXiv:1607.06450), eqs 3 and 4. Also gives mean and rstd (all dims but the last), for the
/// gradients. Two-pass variance, divisor C. x may be `wide`, here and in all rows of norms below;
/// its gradient then is too. A norm that is not `centred` has no mean, here and in all rows below:
/// y = x * rstd * gain, rstd = 1 / sqrt(average of x^2 + epsilon), and requires that there is no
/// bias; Zhang, Sennrich 2019 (arXiv:1910.07467), eq. 4.
struct LayerNorm {
  double epsilon = 1e-5;
  bool bias = true, wide = false, centred = true;
  FOURFOLD_OP_ROW(LayerNorm, "layer_norm", epsilon, bias, wide, centred);
  CutForm cut_form(Shapes reads, std::int64_t chunks) const;
};

/// x_grad from x, gain, mean, rstd, y_grad; without the mean where not `centred`.
struct LayerNormGradient {
  bool wide = false, centred = true;
  FOURFOLD_OP_ROW(LayerNormGradient, "layer_norm_gradient", wide, centred);
  CutForm cut_form(Shapes reads, std::int64_t chunks) const;
};

/// gain_grad (+)= sum of y_grad * (x - mean) * rstd; bias_grad (+)= sum of y_grad; sums over all
/// dims but the last.
struct LayerNormWeightGradient {
  bool bias = true, accumulate = false, wide = false, centred = true;
  FOURFOLD_OP_ROW(LayerNormWeightGradient, "layer_norm_weight_gradient", bias, accumulate, wide,
                  centred);
};

// Layer norm where ranks share C: moments of blocks, gathered, then merged. The number of blocks is
// an attribute of the graph and not of the grid, so every grid computes the same function.

/// moments[p] = (mean, sum of squared distances from it) of block p of the last dim of x, cut into
/// `parts` blocks of equal size: x (..., C), moments (parts, ..., 2). Corrected two-pass (Chan,
/// Golub, LeVeque 1983, "Algorithms for computing the sample variance"). `parts` counts the local
/// blocks. Requires that it divides the local C. Not `centred`: moments[p] is the sum of the
/// squares of the block alone, moments (parts, ..., 1).
struct LayerNormMoments {
  std::int64_t parts = 1;
  bool wide = false, centred = true;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::local_size, "parts", 1, 0}, self.parts);
  }
  FOURFOLD_OP_ROW(LayerNormMoments, "layer_norm_moments", parts, wide, centred);
};

/// As layer_norm, the statistics merged from all moments (parts, ..., 2), in index order by the
/// pairwise formula of Chan, Golub, LeVeque 1983; sums of squares, where not `centred`, added up in
/// that order. `width` is C over all ranks; x, gain and bias may be parts. Requires that parts
/// divide width.
struct LayerNormApply {
  double epsilon = 1e-5;
  bool bias = true;
  std::int64_t width = 0;
  bool wide = false, centred = true;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::size, "width", 0, Place::last_dim}, self.width);
  }
  FOURFOLD_OP_ROW(LayerNormApply, "layer_norm_apply", epsilon, bias, width, wide, centred);
};

/// sums (..., 2) = the sums over local channels of y_grad gain and of y_grad gain (x - mean) rstd:
/// terms of the sums over C. Not `centred`: the second sum alone, (..., 1).
struct LayerNormGradientSums {
  bool wide = false, centred = true;
  FOURFOLD_OP_ROW(LayerNormGradientSums, "layer_norm_gradient_sums", wide, centred);
};

/// x_grad from x, gain, mean, rstd, y_grad and the sums over all of C; `width` is C over all ranks.
struct LayerNormGradientApply {
  std::int64_t width = 0;
  bool wide = false, centred = true;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::size, "width", 0, Place::last_dim}, self.width);
  }
  FOURFOLD_OP_ROW(LayerNormGradientApply, "layer_norm_gradient_apply", width, wide, centred);
};

/// y[..., n] = x[..., n] + bias[n], bias having any number of dims.
struct AddBias {
  FOURFOLD_OP_ROW(AddBias, "add_bias");
};

/// bias_grad[n] (+)= sum of y_grad[..., n] over its first `summed_dims` dims.
struct BiasGradient {
  std::int64_t summed_dims = 1;
  bool accumulate = false;
  FOURFOLD_OP_ROW(BiasGradient, "bias_gradient", summed_dims, accumulate);
};

/// cast of several tensors, each as op::Cast has it. Reads all x, writes all y.
struct CastList {
  std::int64_t tensors = 1;
  /// The number of tensors: `tensors`, cut to what a program can have, as a text may claim
  /// anything.
  std::int64_t count() const;
  FOURFOLD_LIST_ROW(CastList, "cast_list", tensors);
};

/// y[b,0,:] = x[b,index,:], index a scalar operand: x (B,T,C), y (B,1,C); both may be `wide`.
struct TakePosition {
  bool wide = false;
  FOURFOLD_OP_ROW(TakePosition, "take_position", wide);
  std::int64_t integer_bound(Shapes all) const;
};

/// token_loss[b,t] = lse - logits[b,t,label], 0 where label is -1; lse = log sum exp of
/// logits[b,t,:].
struct CrossEntropy {
  FOURFOLD_OP_ROW(CrossEntropy, "cross_entropy");
  CutForm cut_form(Shapes reads, std::int64_t chunks) const;
  std::int64_t integer_bound(Shapes all) const;
};

// Cross entropy where ranks share V: a local column v is column first_column + v of the vocabulary.
// Columns from `columns` on, the size of the vocabulary, are padding; `columns` 0: there is none.

/// max[b,t] = the largest of the local logits, -infinity where all columns are padding. Columns cut
/// over ranks make it a partial maximum.
struct LogitMax {
  std::int64_t first_column = 0, columns = 0;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::first, "first_column", 0, Place::last_dim}, self.first_column);
    visit({Told::size_if_cut, "columns", 0, Place::last_dim}, self.columns);
  }
  FOURFOLD_OP_ROW(LogitMax, "logit_max", first_column, columns);
};

/// sum_exp = sum over local columns of exp(logits - max); label_logit = logits[label] - max, 0
/// where the label is -1 or not here. Partial sums of what cross_entropy_merge reads. The maximum
/// is subtracted already, so that the loss is not a difference of large numbers.
struct LogitSums {
  std::int64_t first_column = 0, columns = 0;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    LogitMax::places(self, visit);
  }
  FOURFOLD_OP_ROW(LogitSums, "logit_sums", first_column, columns);
  std::int64_t integer_bound(Shapes all) const;
};

/// token_loss and lse as cross_entropy gives them, from max, sum_exp, label_logit and labels:
/// token_loss = log(sum_exp) - label_logit, lse = max + log(sum_exp).
struct CrossEntropyMerge {
  FOURFOLD_OP_ROW(CrossEntropyMerge, "cross_entropy_merge");
};

/// logits_grad = scale * (exp(logits - lse) - [first_column + v = label]), 0 where label is -1 and
/// in padding.
struct CrossEntropyGradient {
  double scale = 1;
  std::int64_t first_column = 0, columns = 0;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    LogitMax::places(self, visit);
  }
  FOURFOLD_OP_ROW(CrossEntropyGradient, "cross_entropy_gradient", scale, first_column, columns);
  std::int64_t integer_bound(Shapes all) const;
};

/// loss_sum (+)= sum of token_loss in double; count (+)= number of labels that are not -1.
struct LossSum {
  bool accumulate = false;
  FOURFOLD_OP_ROW(LossSum, "loss_sum", accumulate);
};

/// count (+)= number of labels whose logit is the largest of its row: equal to `max`, which
/// op::LogitMax gives for all columns. A label that shares the maximum with others counts as
/// correct. Nothing counts where the label is -1 or not among the local columns, so that ranks
/// which share V give terms of a sum.
struct CountCorrect {
  std::int64_t first_column = 0, columns = 0;
  bool accumulate = false;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    LogitMax::places(self, visit);
  }
  FOURFOLD_OP_ROW(CountCorrect, "count_correct", first_column, columns, accumulate);
  std::int64_t integer_bound(Shapes all) const;
};

/// sum (+)= sum of squares of x, in double; of several tensors one after another (op::pieces).
struct SquaredNorm {
  bool accumulate = false;
  std::int64_t tensors = 1;
  FOURFOLD_OP_ROW(SquaredNorm, "squared_norm", accumulate, tensors);
  std::vector<Piece> pieces() const;
};

/// This rank's term of the votes (op::Votes): that of its host, and one against the update unless
/// squared_norm, loss_sum and lr are finite, valid_count > 0 and no earlier update has found an
/// element that is not finite (non_finite = 0).
/// Ranks that hold replicas may disagree where a memory is faulty, so all of them are asked.
struct Vote {
  FOURFOLD_OP_ROW(Vote, "vote");
};

/// Scales the update, and applies it if no rank voted against. With f = nominal_count /
/// valid_count (0 without tokens):
///   grad_norm = f sqrt(squared_norm),   scale = f min(1, clip / (grad_norm + 1e-6))   (clip 0: no
///   clipping), applied = 1 or 0.
struct UpdateControl {
  std::int64_t nominal_count = 1;
  double clip = 0;
  FOURFOLD_OP_ROW(UpdateControl, "update_control", nominal_count, clip);
};

/// average = decay average + (1 - decay) weight, where applied = 1: the moving average of a weight.
struct MovingAverage {
  double decay = 0.9999;
  FOURFOLD_OP_ROW(MovingAverage, "moving_average", decay);
};

/// moving_average of several tensors with one decay. Reads applied, once, then all weights; updates
/// all averages.
struct MovingAverageList {
  double decay = 0.9999;
  std::int64_t tensors = 1;
  /// The number of tensors: `tensors`, cut to what a program can have, as a text may claim
  /// anything.
  std::int64_t count() const;
  FOURFOLD_LIST_ROW(MovingAverageList, "moving_average_list", decay, tensors);
};

/// updates += applied: how many updates were written (Adam's t), kept on the device.
struct CountUpdate {
  FOURFOLD_OP_ROW(CountUpdate, "count_update");
};

/// non_finite += found: how many elements the updates could not write since the start, kept on the
/// device.
struct CountNonFinite {
  FOURFOLD_OP_ROW(CountNonFinite, "count_non_finite");
};

/// x[i] = stddev * normal(seed, stream; element i, step 0), computed in double, i the index in the
/// global tensor, of which `part` says what is here; 0 in padding. `shape` is the local one.
struct InitNormal {
  RandomStream stream;
  double stddev = 1;
  Shape shape;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::local_shape, "shape", 1}, self.shape);
    visit({Told::window, "part", 1, 0}, self.part);
  }
  FOURFOLD_OP_ROW(InitNormal, "init_normal", stream, stddev, shape, part);
};

/// x[i] = bound (2 u - 1), u uniform(seed, stream; element i, step 0); otherwise as InitNormal.
struct InitUniform {
  RandomStream stream;
  double bound = 1;
  Shape shape;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    InitNormal::places(self, visit);
  }
  FOURFOLD_OP_ROW(InitUniform, "init_uniform", stream, bound, shape, part);
};

/// x = value everywhere, rounded to the computation's dtype, which may also be i64 or u64.
struct Fill {
  double value = 0;
  Shape shape;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::local_shape, "shape", 0}, self.shape);
  }
  FOURFOLD_OP_ROW(Fill, "fill", value, shape);
};

/// digest = sum mod 2^64 over elements of lo(x) hi(x), x = (stream + i g) xor (bits 0x9E3779B1), lo
/// and hi its halves: free of layout and order. i is the index in the global tensor, of which
/// `part` says what is here, g 0x9E3779B97F4A7C15; bits are zero-extended, padding does not count.
struct Digest {
  RandomStream stream;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::window, "part", 0, 0}, self.part);
  }
  FOURFOLD_OP_ROW(Digest, "digest", stream, part);
};

/// FOURFOLD_PLAIN_ROWS(ROW) is ROW(Type, class of its work) for each of the rows above.
#define FOURFOLD_PLAIN_ROWS(ROW)          \
  ROW(Contract, product)                  \
  ROW(Embedding, look_up)                 \
  ROW(EmbeddingGradient, look_up)         \
  ROW(AddPositions, look_up)              \
  ROW(PositionsGradient, look_up)         \
  ROW(Dropout, elementwise)               \
  ROW(LayerNorm, reduction)               \
  ROW(LayerNormGradient, reduction)       \
  ROW(LayerNormWeightGradient, reduction) \
  ROW(LayerNormMoments, reduction)        \
  ROW(LayerNormApply, reduction)          \
  ROW(LayerNormGradientSums, reduction)   \
  ROW(LayerNormGradientApply, reduction)  \
  ROW(AddBias, elementwise)               \
  ROW(BiasGradient, reduction)            \
  ROW(CastList, elementwise)              \
  ROW(TakePosition, look_up)              \
  ROW(CrossEntropy, reduction)            \
  ROW(LogitMax, reduction)                \
  ROW(LogitSums, reduction)               \
  ROW(CrossEntropyMerge, elementwise)     \
  ROW(CrossEntropyGradient, elementwise)  \
  ROW(LossSum, reduction)                 \
  ROW(CountCorrect, reduction)            \
  ROW(SquaredNorm, reduction)             \
  ROW(Vote, control)                      \
  ROW(UpdateControl, control)             \
  ROW(MovingAverage, elementwise)         \
  ROW(MovingAverageList, elementwise)     \
  ROW(CountUpdate, control)               \
  ROW(CountNonFinite, control)            \
  ROW(InitNormal, source)                 \
  ROW(InitUniform, source)                \
  ROW(Fill, source)                       \
  ROW(Digest, reduction)

}  // namespace fourfold::op
