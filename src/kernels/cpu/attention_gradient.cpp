// Gradient of attention on CPU: probabilities are recomputed block by block from lse.
// With P = exp(S - lse) and K the factors of dropout:  dV = (P K)^T dY;  dS = P (K (dY V^T) -
// sum(dY Y)); dQ = scale dS K;  dK = scale dS^T Q.   Dao 2023 (arXiv:2307.08691), section 3.1.
// Heads of a group add to the gradients of its key and value one after another, on one thread.
#include <optional>

#include "kernels/cpu/attention_pieces.h"
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// Scratch of one thread, for elements stored as T. What a name calls scaled is multiplied by
/// `scale`; what `rounded` holds, and the gradients of keys and values, are sums that are rounded
/// when they are complete.
template <class T>
struct GradientScratch {
  using S = Sum<T>;
  S *keys, *values, *key_panels_scaled;          // of the group
  S *queries_transposed, *y_grad_transposed;     // of the block, scaled the first
  S *query_panels_scaled, *y_grad_panels;        // of the block
  S *kept_probabilities, *score_gradients;       // of the block
  S *keep_rows, *keep;                           // of a panel of queries
  S *rounded, *key_gradients, *value_gradients;  // where storing rounds
  GradientScratch(Scratch& scratch, const AttentionSizes& sizes)
      : keys(scratch.take<S>(sizes.time * sizes.width)),
        values(scratch.take<S>(sizes.time * sizes.width)),
        key_panels_scaled(scratch.take<S>(sizes.time * padded_columns<S>(sizes.width))),
        queries_transposed(scratch.take<S>(query_block * sizes.width)),
        y_grad_transposed(scratch.take<S>(query_block * sizes.width)),
        query_panels_scaled(scratch.take<S>(query_block * padded_columns<S>(sizes.width))),
        y_grad_panels(scratch.take<S>(query_block * padded_columns<S>(sizes.width))),
        kept_probabilities(scratch.take<S>(query_block * sizes.time)),
        score_gradients(scratch.take<S>(query_block * sizes.time)),
        keep_rows(scratch.take<S>(panel_columns<S> * sizes.time)),
        keep(scratch.take<S>(panel_columns<S> * sizes.time)),
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

/// For the queries of a panel: sum(dY Y), and lse; 0 in lanes without a query.
template <class T>
void sums_of_rows(const Call<T>& call, std::int64_t unit, const QueryBlock& block, std::int64_t row,
                  Sum<T>* means, Sum<T>* lse) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  constexpr std::int64_t queries = panel_columns<S>;
  std::fill_n(means, queries, S{0});
  std::fill_n(lse, queries, S{0});
  for (std::int64_t q = 0; q < std::min(queries, block.rows - row); ++q) {
    const std::int64_t t = block.first + row + q;
    const T* y = call.y + sizes.y(unit) + t * sizes.y_stride();
    const T* y_grad = call.y_grad + sizes.y(unit) + t * sizes.y_stride();
    S mean = 0;
#pragma omp simd reduction(+ : mean)
    for (std::int64_t d = 0; d < sizes.width; ++d) mean += summed(y[d]) * summed(y_grad[d]);
    means[q] = mean;
    lse[q] = call.lse[unit * sizes.time + t];
  }
}

/// In: the scores of a panel of queries in kept_probabilities, dY V^T in score_gradients. Out: what
/// the names say, 0 where a query does not see a key.
template <class T>
void gradients_of_panel(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
                        std::int64_t row, const GradientScratch<T>& own) {
  using S = Sum<T>;
  constexpr std::int64_t queries = panel_columns<S>;
  const PanelKeys keys = block.template keys_of_panel<S>(row);
  hide_unseen(block, row, keys, own.kept_probabilities);
  S means[queries], lse[queries];
  sums_of_rows(call, unit, block, row, means, lse);
  if (call.mask) {
    keep_factors_of_panel(call, unit, block, row, keys, own.keep_rows, own.keep);
  }
  for (std::int64_t s = keys.begin; s < keys.end; ++s) {
    S* kept = own.kept_probabilities + s * query_block + row;
    S* gradients = own.score_gradients + s * query_block + row;
    if (call.mask) {
      const S* keep = own.keep + (s - keys.begin) * queries;
#pragma omp simd
      for (std::int64_t q = 0; q < queries; ++q) {
        const S p = exp_flushed(kept[q] - lse[q]);
        gradients[q] = p * (keep[q] * gradients[q] - means[q]);
        kept[q] = keep[q] * p;
      }
    } else {
#pragma omp simd
      for (std::int64_t q = 0; q < queries; ++q) {
        const S p = exp_flushed(kept[q] - lse[q]);
        gradients[q] = p * (gradients[q] - means[q]);
        kept[q] = p;
      }
    }
  }
  clear_unseen(block, row, keys, own.kept_probabilities);
  clear_unseen(block, row, keys, own.score_gradients);
}

/// Gives the keys [begin, end) and their values the terms of the block's queries.
template <class T>
void give_keys(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
               const GradientScratch<T>& own, std::int64_t begin, std::int64_t end, bool accumulate,
               RowsAhead<T>& ahead) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width;
  const auto give = [&](const S* left, const S* panels, S* sums, std::int64_t stride) {
    tile_product<S>(
        end - begin, width, block.over_queries(begin), {left + begin * query_block, query_block, 1},
        {panels, block.rows * panel_columns<S>}, accumulate, sums + begin * stride, stride, ahead);
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

template <class T>
void give_queries(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
                  const GradientScratch<T>& own, RowsAhead<T>& ahead) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t stride = sizes.qkv_stride();
  write_rows(block.rows, sizes.width, call.qkv_grad + sizes.qkv(unit, 0) + block.first * stride,
             stride, own.rounded, [&](S* out, std::int64_t out_stride) {
               tile_product<S>(block.rows, sizes.width, block.over_keys(),
                               {own.score_gradients, 1, query_block},
                               {own.key_panels_scaled, sizes.time * panel_columns<S>}, false, out,
                               out_stride, ahead);
             });
}

/// What the blocks of some queries and the keys of a range give: gradients of these queries, of
/// these keys and their values, or of both.
struct Gives {
  Range queries, keys;
  bool to_queries, to_keys;
};

/// A head of a group: blocks go from the last to the first, and each sees its own keys. Those that
/// no later block of the group's first head has seen it overwrites, to the others it adds.
template <class T>
void differentiate(const Call<T>& call, std::int64_t unit, std::int64_t next, const Gives& gives,
                   const GradientScratch<T>& own) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
  const bool is_first = unit % sizes.of_group == 0;
  const auto scale = static_cast<S>(sizes.scale());
  const T* queries = call.qkv + sizes.qkv(unit, 0);
  // Keys from here on have their first terms.
  std::int64_t written = is_first ? gives.keys.last : gives.keys.first;
  for (std::int64_t first = (gives.queries.last - 1) / query_block * query_block;
       first >= gives.queries.first; first -= query_block) {
    QueryBlock block =
        query_block_at(first, sizes.time, call.documents, unit / sizes.heads, call.op.causal);
    block.first_key = std::max(block.first_key, gives.keys.first);
    block.keys = std::min(block.keys, gives.keys.last);
    const std::int64_t num_keys = block.keys - block.first_key;
    if (num_keys <= 0) continue;
    const std::int64_t columns = padded_columns<S>(block.rows);
    RowsAhead<T> ahead(sizes, next, first, block.rows,
                       2 * tile_count<S>(num_keys, columns) + tile_count<S>(block.rows, width) +
                           2 * tile_count<S>(num_keys, width));
    ahead.of_qkv(call.qkv, false);
    ahead.of_y(call.y, false);
    ahead.of_y(call.y_grad, false);
    ahead.of_qkv(call.qkv_grad, true);
    const T* y_grad = call.y_grad + sizes.y(unit) + first * sizes.y_stride();
    pack_panels(queries + first * stride, 1, stride, width, block.rows, scale,
                own.queries_transposed);
    pack_panels(y_grad, 1, sizes.y_stride(), width, block.rows, S{1}, own.y_grad_transposed);
    if (gives.to_keys) {
      pack_panels(queries + first * stride, stride, 1, block.rows, width, scale,
                  own.query_panels_scaled);
      pack_panels(y_grad, sizes.y_stride(), 1, block.rows, width, S{1}, own.y_grad_panels);
    }
    const auto over_width = [&](const S* rows, const S* panels, S* out) {
      tile_product<S>(num_keys, columns, block.template seen_keys<S>(width),
                      {rows + block.first_key * width, width, 1},
                      {panels, width * panel_columns<S>}, false,
                      out + block.first_key * query_block, query_block, ahead);
    };
    over_width(own.keys, own.queries_transposed, own.kept_probabilities);
    over_width(own.values, own.y_grad_transposed, own.score_gradients);
    for (std::int64_t row = 0; row < block.rows; row += panel_columns<S>)
      gradients_of_panel(call, unit, block, row, own);
    if (gives.to_queries) give_queries(call, unit, block, own, ahead);
    if (!gives.to_keys) continue;
    const std::int64_t border = std::clamp(written, block.first_key, block.keys);
    give_keys(call, unit, block, own, block.first_key, border, false, ahead);
    give_keys(call, unit, block, own, border, block.keys, true, ahead);
    written = std::min(written, block.first_key);
  }
}

/// All heads of a group, and the rounded gradients of their keys and values.
template <class T>
void differentiate(const Call<T>& call, const Piece& piece, const Gives& gives,
                   const GradientScratch<T>& own) {
  const AttentionSizes& sizes = call.sizes;
  for (std::int64_t unit = piece.units.first; unit < piece.units.last; ++unit)
    differentiate(call, unit, piece.next(unit, sizes), gives, own);
  if constexpr (rounds_sums<T>) {
    if (!gives.to_keys) return;
    const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
    const std::int64_t begin = gives.keys.first, count = gives.keys.last - begin;
    const auto store = [&](const Sum<T>* sums, std::int64_t part) {
      store_rounded(sums + begin * width, count, width,
                    call.qkv_grad + sizes.qkv(piece.units.first, part) + begin * stride, stride);
    };
    store(own.key_gradients, 1);
    store(own.value_gradients, 2);
  }
}

/// Whole heads give everything at once. One of several pieces computes scores twice: for the
/// gradients of its queries, and then for its keys.
template <class T>
void differentiate(const Call<T>& call, const Piece& piece, const GradientScratch<T>& own) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
  const T *keys = call.qkv + sizes.qkv(piece.units.first, 1),
          *values = call.qkv + sizes.qkv(piece.units.first, 2);
  copy_scaled(keys, stride, sizes.time, width, S{1}, own.keys);
  copy_scaled(values, stride, sizes.time, width, S{1}, own.values);
  pack_panels(keys, stride, 1, sizes.time, width, static_cast<S>(sizes.scale()),
              own.key_panels_scaled);
  const Range all{0, sizes.time};
  if (piece.is_whole()) return differentiate(call, piece, {all, all, true, true}, own);
  const Range queries = piece.queries(sizes.time, call.op.causal);
  const Range some_keys = piece.keys(sizes.time, call.op.causal);
  if (queries.first < queries.last) differentiate(call, piece, {queries, all, true, false}, own);
  if (some_keys.first < some_keys.last)
    differentiate(call, piece, {all, some_keys, false, true}, own);
}

template <class T>
void attention_gradient(const Call<T>& call, int threads, std::byte* workspace) {
  constexpr double efficiency = 5. / 7;  // products of a whole head, and of its pieces
  for_pieces<GradientScratch<T>>(
      call.sizes, efficiency, threads, workspace,
      [&](const Piece& piece, const GradientScratch<T>& own) { differentiate(call, piece, own); });
}

}  // namespace

Run prepare_row(const op::AttentionGradient& op, const Problem& problem) {
  const AttentionSizes sizes = attention_sizes(problem);
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
