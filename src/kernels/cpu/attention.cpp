// Attention, forward, on CPU: each thread takes whole groups of heads, or some queries of them;
// their keys and values are copied once.
#include <optional>

#include "kernels/cpu/attention_pieces.h"
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// Scratch of one thread, for elements stored as T.
template <class T>
struct HeadScratch {
  using S = Sum<T>;
  S *keys, *values;                // of the group: rows, and panels
  S *queries_transposed, *scores;  // of the block
  S *keep_rows, *keep;             // of a panel of queries
  S *rounded, *inverse;            // of the block's rows
  HeadScratch(Scratch& scratch, const AttentionSizes& sizes)
      : keys(scratch.take<S>(sizes.time * sizes.width)),
        values(scratch.take<S>(sizes.time * padded_columns<S>(sizes.width))),
        queries_transposed(scratch.take<S>(query_block * sizes.width)),
        scores(scratch.take<S>(query_block * sizes.time)),
        keep_rows(scratch.take<S>(panel_columns<S> * sizes.time)),
        keep(scratch.take<S>(panel_columns<S> * sizes.time)),
        rounded(scratch.take<S>(rounds_sums<T> ? query_block * sizes.width : 0)),
        inverse(scratch.take<S>(query_block)) {}
};

template <class T>
struct Call {
  AttentionSizes sizes;
  op::Attention op;
  AttentionElements elements;
  DocumentStarts documents;
  std::optional<DropoutMask> mask;
  const T* qkv;
  T* y;
  Sum<T>* lse;
};

/// The largest of the scores of each query of a panel.
template <class S>
void largest_of_panel(const S* scores, const PanelKeys& keys, S* largest) {
  using Lanes = TileSimd<S>;
  constexpr std::int64_t vectors = panel_columns<S> / Lanes::lanes;
  typename Lanes::Vector most[vectors];
  for (std::int64_t v = 0; v < vectors; ++v)
    most[v] = Lanes::load(scores + keys.begin * query_block + v * Lanes::lanes);
  for (std::int64_t s = keys.begin + 1; s < keys.end; ++s)
    for (std::int64_t v = 0; v < vectors; ++v) {
      const auto other = Lanes::load(scores + s * query_block + v * Lanes::lanes);
      most[v] = most[v] < other ? other : most[v];
    }
  for (std::int64_t v = 0; v < vectors; ++v) Lanes::store(most[v], largest + v * Lanes::lanes);
}

/// Leaves exponentials of the scores of a panel of queries, after dropout, in place of them, and 0
/// where a query does not see a key. The rows of y are to be multiplied by `inverse`, which is
/// shorter than to multiply each probability.
template <class T>
void exponentials_of_panel(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
                           std::int64_t row, const HeadScratch<T>& own) {
  using S = Sum<T>;
  constexpr std::int64_t queries = panel_columns<S>;
  const AttentionSizes& sizes = call.sizes;
  const PanelKeys keys = block.template keys_of_panel<S>(row);
  hide_unseen(block, row, keys, own.scores);
  S* const scores = own.scores + row;
  S largest[queries], sum[queries] = {};
  largest_of_panel(scores, keys, largest);
  for (std::int64_t s = keys.begin; s < keys.end; ++s) {
    S* of_key = scores + s * query_block;
#pragma omp simd
    for (std::int64_t q = 0; q < queries; ++q) {
      of_key[q] = exp_flushed(of_key[q] - largest[q]);
      sum[q] += of_key[q];
    }
  }
  if (call.mask) {
    keep_factors_of_panel(call, unit, block, row, keys, own.keep_rows, own.keep);
    for (std::int64_t s = keys.begin; s < keys.end; ++s) {
      S* of_key = scores + s * query_block;
      const S* keep = own.keep + (s - keys.begin) * queries;
#pragma omp simd
      for (std::int64_t q = 0; q < queries; ++q) of_key[q] *= keep[q];
    }
  }
  clear_unseen(block, row, keys, own.scores);
  S* lse = call.lse + unit * sizes.time + block.first + row;
  S logarithms[queries];
#pragma omp simd
  for (std::int64_t q = 0; q < queries; ++q) {
    logarithms[q] = largest[q] + log_of(sum[q]);
    own.inverse[row + q] = 1 / sum[q];
  }
  std::copy_n(logarithms, std::min(queries, block.rows - row), lse);
}

template <class S>
void scale_row(S factor, std::int64_t width, S* row) {
#pragma omp simd
  for (std::int64_t d = 0; d < width; ++d) row[d] *= factor;
}

/// Some rows of a head, of whose keys so many are packed.
template <class T>
void attend(const Call<T>& call, std::int64_t unit, std::int64_t next, const Range& rows,
            std::int64_t all_keys, const HeadScratch<T>& own) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
  const T* queries = call.qkv + sizes.qkv(unit, 0);
  for (std::int64_t first = rows.first; first < rows.last; first += query_block) {
    const QueryBlock block =
        query_block_at(first, sizes.time, call.documents, unit / sizes.heads, call.op.causal);
    const std::int64_t keys = block.keys - block.first_key;
    const std::int64_t columns = padded_columns<S>(block.rows);
    RowsAhead<T> ahead(sizes, next, first, block.rows,
                       tile_count<S>(keys, columns) + tile_count<S>(block.rows, width));
    ahead.of_qkv(call.qkv, false);
    ahead.of_y(call.y, true);
    pack_panels(queries + first * stride, 1, stride, width, block.rows,
                static_cast<S>(sizes.scale()), own.queries_transposed);
    tile_product<S>(keys, columns, block.template seen_keys<S>(width),
                    {own.keys + block.first_key * width, width, 1},
                    {own.queries_transposed, width * panel_columns<S>}, false,
                    own.scores + block.first_key * query_block, query_block, ahead);
    for (std::int64_t row = 0; row < block.rows; row += panel_columns<S>)
      exponentials_of_panel(call, unit, block, row, own);
    write_rows(block.rows, width, call.y + sizes.y(unit) + first * sizes.y_stride(),
               sizes.y_stride(), own.rounded, [&](S* out, std::int64_t out_stride) {
                 tile_product<S>(block.rows, width, block.over_keys(), {own.scores, 1, query_block},
                                 {own.values, all_keys * panel_columns<S>}, false, out, out_stride,
                                 ahead);
                 for (std::int64_t row = 0; row < block.rows; ++row)
                   scale_row(own.inverse[row], width, out + row * out_stride);
               });
  }
}

template <class T>
void attend(const Call<T>& call, const Piece& piece, const HeadScratch<T>& own) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
  const Range rows = piece.queries(sizes.time, call.op.causal);
  if (rows.first == rows.last) return;
  const std::int64_t all_keys = call.op.causal ? rows.last : sizes.time;
  const T *keys = call.qkv + sizes.qkv(piece.units.first, 1),
          *values = call.qkv + sizes.qkv(piece.units.first, 2);
  copy_scaled(keys, stride, all_keys, width, S{1}, own.keys);
  pack_panels(values, stride, 1, all_keys, width, S{1}, own.values);
  for (std::int64_t unit = piece.units.first; unit < piece.units.last; ++unit)
    attend(call, unit, piece.next(unit, sizes), rows, all_keys, own);
}

template <class T>
void attention(const Call<T>& call, int threads, std::byte* workspace) {
  constexpr double efficiency = 1;  // keys and values are copied again, which is little
  for_pieces<HeadScratch<T>>(
      call.sizes, efficiency, threads, workspace,
      [&](const Piece& piece, const HeadScratch<T>& own) { attend(call, piece, own); });
}

}  // namespace

Run prepare_row(const op::Attention& op, const Problem& problem) {
  const AttentionSizes sizes = attention_sizes(problem);
  const AttentionElements elements = attention_elements(op, problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes, elements, threads = problem.threads](Tensors operands, Workspace workspace) {
      const AttentionOperands at(op, 1);
      Call<T> call{sizes,
                   op,
                   elements,
                   document_starts(op, operands, at.starts),
                   {},
                   operands[0].as<T>(),
                   operands[at.outputs].as<T>(),
                   operands[at.outputs + 1].as<Sum<T>>()};
      if (op.rate != 0)
        call.mask.emplace(op.stream, op.rate, *operands[at.seed].as<std::uint64_t>(),
                          *operands[at.seed + 1].as<std::int64_t>());
      attention(call, threads, workspace.data());
    };
  });
}

std::int64_t workspace_bytes(const op::Attention&, const Problem& problem) {
  return problem.threads * thread_bytes<HeadScratch>(problem);
}

}  // namespace fourfold::kernels::cpu
