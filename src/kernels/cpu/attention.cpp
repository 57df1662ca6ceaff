// Attention, forward, on CPU: each thread takes whole heads; keys and values of a head are
// packed once.
#include <optional>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/keep_factors.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// Scratch of one thread, for elements stored as T.
template <class T>
struct HeadScratch {
  using S = Sum<T>;
  S *keys_transposed, *values, *queries, *scores, *keep, *rounded;
  S *largest, *sum, *inverse;  // of the block's rows
  HeadScratch(Scratch& scratch, const AttentionSizes& sizes)
      : keys_transposed(scratch.take<S>(sizes.width * padded_columns<S>(sizes.time))),
        values(scratch.take<S>(sizes.time * padded_columns<S>(sizes.width))),
        queries(scratch.take<S>(query_block * sizes.width)),
        scores(scratch.take<S>(query_block * score_stride<S>(sizes.time))),
        keep(scratch.take<S>(padded_columns<S>(sizes.time))),
        rounded(scratch.take<S>(rounds_sums<T> ? query_block * sizes.width : 0)),
        largest(scratch.take<S>(query_block)),
        sum(scratch.take<S>(query_block)),
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

/// Leaves exponentials of the block's scores, after dropout, in place of them: zero before each
/// row's document and beyond the last key that it sees. The rows of y are to be multiplied by
/// `inverse`, which is shorter than to multiply each probability.
template <class T>
void exponentials_of_rows(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
                          const HeadScratch<T>& own) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    // From here on columns count from the panel that the row's document begins in.
    const std::int64_t begin = block.first_key_of(row) % panel_columns<S>;
    const std::int64_t panel = block.first_key_of(row) - begin;
    const std::int64_t count = block.end_key_of(row) - panel;
    S* scores = own.scores + row * block.stride + panel;
    const auto [largest, sum] = exponentials(scores, begin, count);
    own.largest[row] = largest;
    own.sum[row] = sum;
    if (call.mask) {
      const std::uint64_t sample = global_sample(call.op.window, unit / sizes.heads);
      const std::uint64_t element =
          call.elements.row(sample, unit % sizes.heads, block.first + row);
      keep_factors(*call.mask, element + static_cast<std::uint64_t>(panel), count,
                   static_cast<S>(1 / (1 - call.op.rate)), own.keep);
      const std::int64_t padded = padded_columns<S>(count);
#pragma omp simd
      for (std::int64_t s = 0; s < padded; ++s) scores[s] *= own.keep[s];
    }
    std::fill(scores + block.first_panel - panel, scores, S{0});
    std::fill(scores + count, scores + block.keys_padded - panel, S{0});
  }
  S* lse = call.lse + unit * sizes.time + block.first;
#pragma omp simd
  for (std::int64_t row = 0; row < block.rows; ++row) {
    lse[row] = own.largest[row] + log_of(own.sum[row]);
    own.inverse[row] = 1 / own.sum[row];
  }
}

template <class S>
void scale_row(S factor, std::int64_t width, S* row) {
#pragma omp simd
  for (std::int64_t d = 0; d < width; ++d) row[d] *= factor;
}

template <class T>
void attend(const Call<T>& call, std::int64_t unit, const HeadScratch<T>& own) {
  using S = Sum<T>;
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
  const T* queries = call.qkv + sizes.qkv(unit, 0);
  pack_panels(call.qkv + sizes.qkv(unit, 1), 1, stride, width, sizes.time, S{1},
              own.keys_transposed);
  pack_panels(call.qkv + sizes.qkv(unit, 2), stride, 1, sizes.time, width, S{1}, own.values);
  for (std::int64_t first = 0; first < sizes.time; first += query_block) {
    const QueryBlock block =
        query_block_at<S>(first, sizes.time, call.documents, unit / sizes.heads, call.op.causal);
    fetch_qkv(call.qkv, sizes, unit + 1, first, block.rows, fetch<T>);
    fetch_y(call.y, sizes, unit + 1, first, block.rows, fetch_to_write<T>);
    copy_scaled(queries + first * stride, stride, block.rows, width, static_cast<S>(sizes.scale()),
                own.queries);
    tile_product<S>(block.rows, block.keys_padded - block.first_panel,
                    block.template seen_keys<S>(width), {own.queries, width, 1},
                    {own.keys_transposed + block.first_panel * width, width * panel_columns<S>},
                    false, own.scores + block.first_panel, block.stride);
    exponentials_of_rows(call, unit, block, own);
    write_rows(block.rows, width, call.y + sizes.y(unit) + first * sizes.y_stride(),
               sizes.y_stride(), own.rounded, [&](S* out, std::int64_t out_stride) {
                 tile_product<S>(
                     block.rows, width, block.over_keys(), {own.scores, block.stride, 1},
                     {own.values, sizes.time * panel_columns<S>}, false, out, out_stride);
                 for (std::int64_t row = 0; row < block.rows; ++row)
                   scale_row(own.inverse[row], width, out + row * out_stride);
               });
  }
}

template <class T>
void attention(const Call<T>& call, int threads, std::byte* workspace) {
  for_heads<HeadScratch<T>>(
      call.sizes, threads, workspace,
      [&](std::int64_t unit, const HeadScratch<T>& own) { attend(call, unit, own); });
}

}  // namespace

Run prepare_row(const op::Attention& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0]);
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
