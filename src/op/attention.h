// Rows of attention, and what a model does to queries, keys and values before it.
//
// B batch (samples), T time, H heads, G groups of heads, R heads of a group, D head width, P
// positions held, F ffn width. A grouped qkv (B,T,G,R+2,D) has for each group the queries of its R
// heads, then the one key and the one value that these share: one product gives it, of which the
// gradient of its input is one sum.
#pragma once

#include "op/ops.h"

namespace fourfold::op {

/// Self-attention of every head: y[b,t,h,:] = sum over s of p[b,h,t,s] v[b,s,h,:], p the softmax
/// over s of q k / sqrt(D), then dropout of p at `rate`; `causal` lets s run up to t only, else
/// over all of the sample. qkv (B,T,3,H,D), y (B,T,H,D); lse (B,H,T) = log sum exp of the scaled
/// scores. T may be several dims, such as those of a picture, in row-major order. Vaswani et al.
/// 2017 (arXiv:1706.03762), eq 1. Element (sample, h, t, s) of p counts for dropout. `first_head`
/// and `heads`: which heads of the model these are (a cut over heads leaves the mask unchanged).
/// With `documents`, which are for causal attention, the operand document_starts (B,T) says where
/// the document of token t begins in its sample, and s runs from there on: no token sees another
/// document. Requires document_starts[b,t] in 0 ... t, not falling along t. Flops are those of
/// samples of one document: how they are cut is not known beforehand.
/// `grouped`: qkv (B,T,G,R+2,D), y (B,T,G,R,D), lse (B,G,R,T); head g R + r is head r of group g,
/// and `first_head` and `heads` count groups. Ainslie et al. 2023 (arXiv:2305.13245).
struct Attention {
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  std::int64_t first_head = 0, heads = 0;
  bool documents = false, causal = true, grouped = false;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    if (self.rate == 0) return;  // heads count in the mask of dropout alone
    const std::size_t heads = Place::last_dim - (self.grouped ? 2 : 1);
    visit({Told::samples, "window", 0}, self.window);
    visit({Told::first, "first_head", 0, heads}, self.first_head);
    visit({Told::size, "heads", 0, heads}, self.heads);
  }
  FOURFOLD_OP_ROW(Attention, "attention", stream, rate, window, first_head, heads, documents,
                  causal, grouped);
  std::int64_t integer_bound(Shapes all) const;
};

/// qkv_grad from qkv, y, lse, y_grad; the same attributes as the forward op. Recomputes p from lse.
/// A key of a group has the gradients of all heads that share it, added up.
struct AttentionGradient {
  RandomStream stream;
  double rate = 0;
  SampleWindow window;
  std::int64_t first_head = 0, heads = 0;
  bool documents = false, causal = true, grouped = false;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    Attention::places(self, visit);
  }
  FOURFOLD_OP_ROW(AttentionGradient, "attention_gradient", stream, rate, window, first_head, heads,
                  documents, causal, grouped);
  std::int64_t integer_bound(Shapes all) const;
};

/// Attention that continues a text: writes k and v of the T new tokens to cache (B,2,P,H,D) at
/// `position`..., then attends over positions 0 ... position + t. qkv (B,T,3,H,D), y (B,T,H,D);
/// `grouped`: qkv (B,T,G,R+2,D), cache (B,2,P,G,D), y (B,T,G,R,D). Requires position + T <= P. No
/// dropout.
struct AttentionCached {
  std::int64_t positions = 0;  // P
  bool grouped = false;
  FOURFOLD_OP_ROW(AttentionCached, "attention_cached", positions, grouped);
  std::int64_t integer_bound(Shapes all) const;
};

/// Turns queries and keys of a grouped qkv (B,T,G,R+2,D) by their position; values stay as they
/// are. Su et al. 2021 (arXiv:2104.09864), in the order of halves: of the first 2 n elements of a
/// vector, n the number of `frequencies`, elements i and n + i are a pair, turned by the angle
/// frequencies[i] * position and multiplied with `factor`; `negative` turns by minus the angle,
/// which is the gradient. Elements from 2 n on stay as they are.
/// The position is start + first + t; start is the scalar operand `position` of a cached text of
/// `positions` P, where that is not 0, and 0 else; `first` is the position of the first local row
/// (a cut of T). With `documents` positions restart in each: first + t - document_starts[b,t] (see
/// Attention). Requires 1 <= n <= D / 2, and start + first + T <= P of a cached text, which has no
/// documents.
struct Rotary {
  Numbers frequencies;
  double factor = 1;
  bool negative = false;
  std::int64_t positions = 0, first = 0;
  bool documents = false;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::first, "first", 0, 1}, self.first);
  }
  FOURFOLD_OP_ROW(Rotary, "rotary", frequencies, factor, negative, positions, first, documents);
  std::int64_t integer_bound(Shapes all) const;
};

/// Norms each query and each key of a grouped qkv (B,T,G,R+2,D) over D, as a layer_norm that is not
/// centred, queries with q_gain (D) and keys with k_gain (D); values stay as they are. Also gives
/// rstd (B,T,G,R+1), of the queries and the key of a group.
struct HeadNorm {
  double epsilon = 1e-5;
  FOURFOLD_OP_ROW(HeadNorm, "head_norm", epsilon);
};

/// qkv_grad from qkv, q_gain, k_gain, rstd, y_grad.
struct HeadNormGradient {
  FOURFOLD_OP_ROW(HeadNormGradient, "head_norm_gradient");
};

/// q_gain_grad (+)= sum of y_grad * x * rstd over all queries x; k_gain_grad likewise over all
/// keys.
struct HeadNormWeightGradient {
  bool accumulate = false;
  FOURFOLD_OP_ROW(HeadNormWeightGradient, "head_norm_weight_gradient", accumulate);
};

/// y[..., f] = silu(x[..., 0, f]) * x[..., 1, f]: x (..., 2, F), y (..., F). Shazeer 2020
/// (arXiv:2002.05202), there SwiGLU.
struct Gated {
  FOURFOLD_OP_ROW(Gated, "gated");
};

/// x_grad from x and y_grad.
struct GatedGradient {
  FOURFOLD_OP_ROW(GatedGradient, "gated_gradient");
};

/// FOURFOLD_ATTENTION_ROWS(ROW) is ROW(Type, class of its work) for each of the rows above.
#define FOURFOLD_ATTENTION_ROWS(ROW)     \
  ROW(Attention, core)                   \
  ROW(AttentionGradient, core)           \
  ROW(AttentionCached, core)             \
  ROW(Rotary, elementwise)               \
  ROW(HeadNorm, reduction)               \
  ROW(HeadNormGradient, reduction)       \
  ROW(HeadNormWeightGradient, reduction) \
  ROW(Gated, elementwise)                \
  ROW(GatedGradient, elementwise)

}  // namespace fourfold::op
