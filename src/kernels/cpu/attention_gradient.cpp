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

/// Scratch of one thread. Panels have queries, keys and values scaled by `scale` where the name
/// says so.
template <class T>
struct HeadScratch {
  T *keys_transposed, *values_transposed, *keys_scaled;     // of the head
  T *queries_scaled, *query_panels_scaled, *y_grad_panels;  // of the block
  T *kept_probabilities, *score_gradients, *keep;
  HeadScratch(Scratch& scratch, const AttentionSizes& sizes)
      : keys_transposed(scratch.take<T>(sizes.width * padded_columns<T>(sizes.time))),
        values_transposed(scratch.take<T>(sizes.width * padded_columns<T>(sizes.time))),
        keys_scaled(scratch.take<T>(sizes.time * padded_columns<T>(sizes.width))),
        queries_scaled(scratch.take<T>(query_block * sizes.width)),
        query_panels_scaled(scratch.take<T>(query_block * padded_columns<T>(sizes.width))),
        y_grad_panels(scratch.take<T>(query_block * padded_columns<T>(sizes.width))),
        kept_probabilities(scratch.take<T>(query_block * padded_columns<T>(sizes.time))),
        score_gradients(scratch.take<T>(query_block * padded_columns<T>(sizes.time))),
        keep(scratch.take<T>(sizes.time)) {}
};

template <class T>
struct Call {
  AttentionSizes sizes;
  op::AttentionGradient op;
  AttentionElements elements;
  DocumentStarts documents;
  std::optional<DropoutMask> mask;
  const T *qkv, *y, *lse, *y_grad;
  T* qkv_grad;
};

/// In: scores in kept_probabilities, dY V^T in score_gradients. Out: what the names say, zero
/// before each row's document and beyond the last key that it sees.
template <class T>
void gradients_of_scores(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
                         const HeadScratch<T>& own) {
  const AttentionSizes& sizes = call.sizes;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    // From here on columns count from the row's first key.
    const std::int64_t t = block.first + row, begin = block.first_key_of(row);
    const std::int64_t count = block.end_key_of(row) - begin, padded = block.keys_padded - begin;
    T* kept = own.kept_probabilities + row * block.keys_padded + begin;
    T* gradients = own.score_gradients + row * block.keys_padded + begin;
    const T* y = call.y + sizes.y(unit) + t * sizes.y_stride();
    const T* y_grad = call.y_grad + sizes.y(unit) + t * sizes.y_stride();
    const T lse = call.lse[unit * sizes.time + t];
    T mean = 0;
#pragma omp simd reduction(+ : mean)
    for (std::int64_t d = 0; d < sizes.width; ++d) mean += y[d] * y_grad[d];
    if (call.mask) {
      const std::uint64_t sample = global_sample(call.op.window, unit / sizes.heads);
      const std::uint64_t element = call.elements.row(sample, unit % sizes.heads, t);
      keep_factors(*call.mask, element + static_cast<std::uint64_t>(begin), count,
                   static_cast<T>(1 / (1 - call.op.rate)), own.keep);
#pragma omp simd
      for (std::int64_t s = 0; s < count; ++s) {
        const T p = exp_flushed(kept[s] - lse);
        gradients[s] = p * (own.keep[s] * gradients[s] - mean);
        kept[s] = own.keep[s] * p;
      }
    } else {
#pragma omp simd
      for (std::int64_t s = 0; s < count; ++s) {
        const T p = exp_flushed(kept[s] - lse);
        gradients[s] = p * (gradients[s] - mean);
        kept[s] = p;
      }
    }
    for (T* columns : {kept, gradients}) {
      std::fill(columns + block.first_key - begin, columns, T{0});
      std::fill(columns + count, columns + padded, T{0});
    }
  }
}

/// Gives the keys [begin, end) and their values the terms of the block's queries.
template <class T>
void give_keys(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
               const HeadScratch<T>& own, std::int64_t begin, std::int64_t end, bool accumulate) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
  const auto give = [&](const T* left, const T* panels, std::int64_t part) {
    tile_product<T>(end - begin, width, block.over_queries(begin),
                    {left + begin, 1, block.keys_padded}, {panels, block.rows * panel_columns<T>},
                    accumulate, call.qkv_grad + sizes.qkv(unit, part) + begin * stride, stride);
  };
  give(own.score_gradients, own.query_panels_scaled, 1);
  give(own.kept_probabilities, own.y_grad_panels, 2);
}

/// Adds the block's terms to the gradients of its queries and of the keys and values that it sees.
/// Blocks go from the last to the first, and each sees its own keys: those before `written`, which
/// no later block has seen, it overwrites.
template <class T>
void add_block(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
               const HeadScratch<T>& own, std::int64_t written) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t stride = sizes.qkv_stride();
  tile_product<T>(block.rows, sizes.width, block.over_keys(),
                  {own.score_gradients, block.keys_padded, 1},
                  {own.keys_scaled, sizes.time * panel_columns<T>}, false,
                  call.qkv_grad + sizes.qkv(unit, 0) + block.first * stride, stride);
  const std::int64_t border = std::min(written, block.keys);
  give_keys(call, unit, block, own, block.first_key, border, false);
  give_keys(call, unit, block, own, border, block.keys, true);
}

template <class T>
void differentiate(const Call<T>& call, std::int64_t unit, const HeadScratch<T>& own) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
  const auto scale = static_cast<T>(sizes.scale());
  const T* queries = call.qkv + sizes.qkv(unit, 0);
  const T* keys = call.qkv + sizes.qkv(unit, 1);
  pack_panels(keys, 1, stride, width, sizes.time, T{1}, own.keys_transposed);
  pack_panels(call.qkv + sizes.qkv(unit, 2), 1, stride, width, sizes.time, T{1},
              own.values_transposed);
  pack_panels(keys, stride, 1, sizes.time, width, scale, own.keys_scaled);
  std::int64_t written = sizes.time;  // keys from here on have their first terms
  for (std::int64_t first = (sizes.time - 1) / query_block * query_block; first >= 0;
       first -= query_block) {
    const QueryBlock block =
        query_block_at<T>(first, sizes.time, call.documents, unit / sizes.heads, call.op.causal);
    const T* y_grad = call.y_grad + sizes.y(unit) + first * sizes.y_stride();
    copy_scaled(queries + first * stride, stride, block.rows, width, scale, own.queries_scaled);
    pack_panels(queries + first * stride, stride, 1, block.rows, width, scale,
                own.query_panels_scaled);
    pack_panels(y_grad, sizes.y_stride(), 1, block.rows, width, T{1}, own.y_grad_panels);
    const auto over_width = [&](const Left<T>& left, const T* panels, T* out) {
      tile_product<T>(block.rows, block.keys_padded - block.first_panel,
                      block.template seen_keys<T>(width), left,
                      {panels + block.first_panel * width, width * panel_columns<T>}, false,
                      out + block.first_panel, block.keys_padded);
    };
    over_width({own.queries_scaled, width, 1}, own.keys_transposed, own.kept_probabilities);
    over_width({y_grad, sizes.y_stride(), 1}, own.values_transposed, own.score_gradients);
    gradients_of_scores(call, unit, block, own);
    add_block(call, unit, block, own, written);
    written = block.first_key;
  }
}

template <class T>
void attention_gradient(const Call<T>& call, int threads, std::byte* workspace) {
  for_heads<HeadScratch<T>>(
      call.sizes, threads, workspace,
      [&](std::int64_t unit, const HeadScratch<T>& own) { differentiate(call, unit, own); });
}

}  // namespace

Run prepare_row(const op::AttentionGradient& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0]);
  const AttentionElements elements = attention_elements(op, problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes, elements, threads = problem.threads](Tensors operands, Workspace workspace) {
      const AttentionOperands at(op, 4);
      Call<T> call{sizes,
                   op,
                   elements,
                   document_starts(op, operands, at.starts),
                   {},
                   operands[0].as<T>(),
                   operands[1].as<T>(),
                   operands[2].as<T>(),
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
  const AttentionSizes sizes(problem.shapes[0]);
  return problem.threads * (problem.dtype == DType::f64 ? thread_bytes<HeadScratch<double>>(sizes)
                                                        : thread_bytes<HeadScratch<float>>(sizes));
}

}  // namespace fourfold::kernels::cpu
