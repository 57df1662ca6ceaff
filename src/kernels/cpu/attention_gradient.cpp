// Gradient of attention on CPU: probabilities are recomputed block by block from lse.
// With P = exp(S - lse) and K the factors of dropout:  dV = (P K)^T dY;  dS = P (K (dY V^T) -
// sum(dY Y)); dQ = scale dS K;  dK = scale dS^T Q.   Dao 2023 (arXiv:2307.08691), section 3.1.
#include <optional>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/keep_factors.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// Scratch of one thread, for elements stored as T. Panels have queries, keys and values scaled by
/// `scale` where the name says so; what `rounded` holds, and the gradients of keys and values, are
/// sums that are rounded when they are complete.
template <class T>
struct GradientScratch {
  using S = Sum<T>;
  S *keys_transposed, *values_transposed, *keys_scaled;     // of the head
  S *queries_scaled, *query_panels_scaled, *y_grad_panels;  // of the block
  S *kept_probabilities, *score_gradients, *keep;
  S *y_grads, *rounded, *key_gradients, *value_gradients;  // where storing rounds
  GradientScratch(Scratch& scratch, const AttentionSizes& sizes)
      : keys_transposed(scratch.take<S>(sizes.width * padded_columns<S>(sizes.time))),
        values_transposed(scratch.take<S>(sizes.width * padded_columns<S>(sizes.time))),
        keys_scaled(scratch.take<S>(sizes.time * padded_columns<S>(sizes.width))),
        queries_scaled(scratch.take<S>(query_block * sizes.width)),
        query_panels_scaled(scratch.take<S>(query_block * padded_columns<S>(sizes.width))),
        y_grad_panels(scratch.take<S>(query_block * padded_columns<S>(sizes.width))),
        kept_probabilities(scratch.take<S>(query_block * score_stride<S>(sizes.time))),
        score_gradients(scratch.take<S>(query_block * score_stride<S>(sizes.time))),
        keep(scratch.take<S>(padded_columns<S>(sizes.time))),
        y_grads(scratch.take<S>(rounds_sums<T> ? query_block * sizes.width : 0)),
        rounded(scratch.take<S>(rounds_sums<T> ? query_block * sizes.width : 0)),
        key_gradients(scratch.take<S>(rounds_sums<T> ? sizes.time * sizes.width : 0)),
        value_gradients(scratch.take<S>(rounds_sums<T> ? sizes.time * sizes.width : 0)) {}
};

template <class T>
struct Call {
  AttentionSizes sizes;
  op::AttentionGradient op;
  AttentionElements elements;
  DocumentStarts documents;
  std::optional<DropoutMask> mask;
  const T *qkv, *y;
  const Sum<T>* lse;
  const T* y_grad;
  T* qkv_grad;
};

/// In: scores in kept_probabilities, dY V^T in score_gradients. Out: what the names say, zero
/// before each row's document and beyond the last key that it sees. Rows are worked on in whole
/// panels, as in `exponentials`.
template <class T>
void gradients_of_scores(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
                         const GradientScratch<T>& own) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    // From here on columns count from the panel that the row's document begins in.
    const std::int64_t t = block.first + row, begin = block.first_key_of(row) % panel_columns<S>;
    const std::int64_t panel = block.first_key_of(row) - begin;
    const std::int64_t count = block.end_key_of(row) - panel, padded = padded_columns<S>(count);
    S* kept = own.kept_probabilities + row * block.stride + panel;
    S* gradients = own.score_gradients + row * block.stride + panel;
    const T* y = call.y + sizes.y(unit) + t * sizes.y_stride();
    const T* y_grad = call.y_grad + sizes.y(unit) + t * sizes.y_stride();
    const S lse = call.lse[unit * sizes.time + t];
    S mean = 0;
#pragma omp simd reduction(+ : mean)
    for (std::int64_t d = 0; d < sizes.width; ++d) mean += summed(y[d]) * summed(y_grad[d]);
    if (call.mask) {
      const std::uint64_t sample = global_sample(call.op.window, unit / sizes.heads);
      const std::uint64_t element = call.elements.row(sample, unit % sizes.heads, t);
      keep_factors(*call.mask, element + static_cast<std::uint64_t>(panel), count,
                   static_cast<S>(1 / (1 - call.op.rate)), own.keep);
#pragma omp simd
      for (std::int64_t s = 0; s < padded; ++s) {
        const S p = exp_flushed(kept[s] - lse);
        gradients[s] = p * (own.keep[s] * gradients[s] - mean);
        kept[s] = own.keep[s] * p;
      }
    } else {
#pragma omp simd
      for (std::int64_t s = 0; s < padded; ++s) {
        const S p = exp_flushed(kept[s] - lse);
        gradients[s] = p * (gradients[s] - mean);
        kept[s] = p;
      }
    }
    for (S* columns : {kept, gradients}) {
      std::fill(columns + block.first_key - panel, columns + begin, S{0});
      std::fill(columns + count, columns + block.keys_padded - panel, S{0});
    }
  }
}

/// Gives the keys [begin, end) and their values the terms of the block's queries.
template <class T>
void give_keys(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
               const GradientScratch<T>& own, std::int64_t begin, std::int64_t end,
               bool accumulate) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width;
  const auto give = [&](const S* left, const S* panels, S* sums, std::int64_t stride) {
    tile_product<S>(end - begin, width, block.over_queries(begin), {left + begin, 1, block.stride},
                    {panels, block.rows * panel_columns<S>}, accumulate, sums + begin * stride,
                    stride);
  };
  if constexpr (rounds_sums<T>) {
    give(own.score_gradients, own.query_panels_scaled, own.key_gradients, width);
    give(own.kept_probabilities, own.y_grad_panels, own.value_gradients, width);
  } else {
    const std::int64_t stride = sizes.qkv_stride();
    give(own.score_gradients, own.query_panels_scaled, call.qkv_grad + sizes.qkv(unit, 1), stride);
    give(own.kept_probabilities, own.y_grad_panels, call.qkv_grad + sizes.qkv(unit, 2), stride);
  }
}

/// Adds the block's terms to the gradients of its queries and of the keys and values that it sees.
/// Blocks go from the last to the first, and each sees its own keys: those before `written`, which
/// no later block has seen, it overwrites.
template <class T>
void add_block(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
               const GradientScratch<T>& own, std::int64_t written) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t stride = sizes.qkv_stride();
  write_rows(block.rows, sizes.width, call.qkv_grad + sizes.qkv(unit, 0) + block.first * stride,
             stride, own.rounded, [&](S* out, std::int64_t out_stride) {
               tile_product<S>(block.rows, sizes.width, block.over_keys(),
                               {own.score_gradients, block.stride, 1},
                               {own.keys_scaled, sizes.time * panel_columns<S>}, false, out,
                               out_stride);
             });
  const std::int64_t border = std::min(written, block.keys);
  give_keys(call, unit, block, own, block.first_key, border, false);
  give_keys(call, unit, block, own, border, block.keys, true);
}

/// The gradient of y in the block's rows as the left operand of a product.
template <class T>
Left<Sum<T>> left_y_grad(const T* y_grad, const AttentionSizes& sizes, const QueryBlock& block,
                         const GradientScratch<T>& own) {
  if constexpr (rounds_sums<T>) {
    copy_scaled(y_grad, sizes.y_stride(), block.rows, sizes.width, Sum<T>{1}, own.y_grads);
    return {own.y_grads, sizes.width, 1};
  } else {
    return {y_grad, sizes.y_stride(), 1};
  }
}

template <class T>
void differentiate(const Call<T>& call, std::int64_t unit, const GradientScratch<T>& own) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
  const auto scale = static_cast<S>(sizes.scale());
  const T* queries = call.qkv + sizes.qkv(unit, 0);
  const T* keys = call.qkv + sizes.qkv(unit, 1);
  pack_panels(keys, 1, stride, width, sizes.time, S{1}, own.keys_transposed);
  pack_panels(call.qkv + sizes.qkv(unit, 2), 1, stride, width, sizes.time, S{1},
              own.values_transposed);
  pack_panels(keys, stride, 1, sizes.time, width, scale, own.keys_scaled);
  std::int64_t written = sizes.time;  // keys from here on have their first terms
  for (std::int64_t first = (sizes.time - 1) / query_block * query_block; first >= 0;
       first -= query_block) {
    const QueryBlock block =
        query_block_at<S>(first, sizes.time, call.documents, unit / sizes.heads, call.op.causal);
    fetch_qkv(call.qkv, sizes, unit + 1, first, block.rows, fetch<T>);
    fetch_y(call.y, sizes, unit + 1, first, block.rows, fetch<T>);
    fetch_y(call.y_grad, sizes, unit + 1, first, block.rows, fetch<T>);
    fetch_qkv(call.qkv_grad, sizes, unit + 1, first, block.rows, fetch_to_write<T>);
    const T* y_grad = call.y_grad + sizes.y(unit) + first * sizes.y_stride();
    copy_scaled(queries + first * stride, stride, block.rows, width, scale, own.queries_scaled);
    pack_panels(queries + first * stride, stride, 1, block.rows, width, scale,
                own.query_panels_scaled);
    pack_panels(y_grad, sizes.y_stride(), 1, block.rows, width, S{1}, own.y_grad_panels);
    const auto over_width = [&](const Left<S>& left, const S* panels, S* out) {
      tile_product<S>(block.rows, block.keys_padded - block.first_panel,
                      block.template seen_keys<S>(width), left,
                      {panels + block.first_panel * width, width * panel_columns<S>}, false,
                      out + block.first_panel, block.stride);
    };
    over_width({own.queries_scaled, width, 1}, own.keys_transposed, own.kept_probabilities);
    over_width(left_y_grad(y_grad, sizes, block, own), own.values_transposed, own.score_gradients);
    gradients_of_scores(call, unit, block, own);
    add_block(call, unit, block, own, written);
    written = block.first_key;
  }
  if constexpr (rounds_sums<T>) {
    store_rounded(own.key_gradients, sizes.time, width, call.qkv_grad + sizes.qkv(unit, 1), stride);
    store_rounded(own.value_gradients, sizes.time, width, call.qkv_grad + sizes.qkv(unit, 2),
                  stride);
  }
}

template <class T>
void attention_gradient(const Call<T>& call, int threads, std::byte* workspace) {
  for_heads<GradientScratch<T>>(
      call.sizes, threads, workspace,
      [&](std::int64_t unit, const GradientScratch<T>& own) { differentiate(call, unit, own); });
}

}  // namespace

Run prepare_row(const op::AttentionGradient& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0]);
  const AttentionElements elements = attention_elements(op, problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes, elements, threads = problem.threads](Tensors operands, Workspace workspace) {
      const AttentionOperands at(op, 4);
      Call<T> call{sizes,
                   op,
                   elements,
                   document_starts(op, operands, at.starts),
                   {},
                   operands[0].as<T>(),
                   operands[1].as<T>(),
                   operands[2].as<Sum<T>>(),
                   operands[3].as<T>(),
                   operands[at.outputs].as<T>()};
      if (op.rate != 0)
        call.mask.emplace(op.stream, op.rate, *operands[at.seed].as<std::uint64_t>(),
                          *operands[at.seed + 1].as<std::int64_t>());
      attention_gradient(call, threads, workspace.data());
    };
  });
}

std::int64_t workspace_bytes(const op::AttentionGradient&, const Problem& problem) {
  return problem.threads * thread_bytes<GradientScratch>(problem);
}

}  // namespace fourfold::kernels::cpu
