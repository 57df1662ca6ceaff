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

/// Scratch of one thread.
template <class T>
struct HeadScratch {
  T *keys_transposed, *values, *queries, *scores, *keep;
  HeadScratch(Scratch& scratch, const AttentionSizes& sizes)
      : keys_transposed(scratch.take<T>(sizes.width * padded_columns<T>(sizes.time))),
        values(scratch.take<T>(sizes.time * padded_columns<T>(sizes.width))),
        queries(scratch.take<T>(query_block * sizes.width)),
        scores(scratch.take<T>(query_block * padded_columns<T>(sizes.time))),
        keep(scratch.take<T>(padded_columns<T>(sizes.time))) {}
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
  T* lse;
};

/// Probabilities of the block's rows, after dropout; zero before each row's document and beyond the
/// last key that it sees.
template <class T>
void probabilities(const Call<T>& call, std::int64_t unit, const QueryBlock& block,
                   const HeadScratch<T>& own) {
  const AttentionSizes& sizes = call.sizes;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    // From here on columns count from the panel that the row's document begins in.
    const std::int64_t t = block.first + row, begin = block.first_key_of(row) % panel_columns<T>;
    const std::int64_t panel = block.first_key_of(row) - begin;
    const std::int64_t count = block.end_key_of(row) - panel;
    T* scores = own.scores + row * block.keys_padded + panel;
    const auto [largest, sum] = exponentials(scores, begin, count);
    call.lse[unit * sizes.time + t] = largest + log_of(sum);
    const T inverse = 1 / sum;
    const std::int64_t padded = padded_columns<T>(count);
#pragma omp simd
    for (std::int64_t s = 0; s < padded; ++s) scores[s] *= inverse;
    if (call.mask) {
      const std::uint64_t sample = global_sample(call.op.window, unit / sizes.heads);
      const std::uint64_t element = call.elements.row(sample, unit % sizes.heads, t);
      keep_factors(*call.mask, element + static_cast<std::uint64_t>(panel), count,
                   static_cast<T>(1 / (1 - call.op.rate)), own.keep);
#pragma omp simd
      for (std::int64_t s = 0; s < padded; ++s) scores[s] *= own.keep[s];
    }
    std::fill(scores + block.first_panel - panel, scores, T{0});
    std::fill(scores + count, scores + block.keys_padded - panel, T{0});
  }
}

template <class T>
void attend(const Call<T>& call, std::int64_t unit, const HeadScratch<T>& own) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t width = sizes.width, stride = sizes.qkv_stride();
  const T* queries = call.qkv + sizes.qkv(unit, 0);
  pack_panels(call.qkv + sizes.qkv(unit, 1), 1, stride, width, sizes.time, T{1},
              own.keys_transposed);
  pack_panels(call.qkv + sizes.qkv(unit, 2), stride, 1, sizes.time, width, T{1}, own.values);
  for (std::int64_t first = 0; first < sizes.time; first += query_block) {
    const QueryBlock block =
        query_block_at<T>(first, sizes.time, call.documents, unit / sizes.heads, call.op.causal);
    copy_scaled(queries + first * stride, stride, block.rows, width, static_cast<T>(sizes.scale()),
                own.queries);
    tile_product<T>(block.rows, block.keys_padded - block.first_panel,
                    block.template seen_keys<T>(width), {own.queries, width, 1},
                    {own.keys_transposed + block.first_panel * width, width * panel_columns<T>},
                    false, own.scores + block.first_panel, block.keys_padded);
    probabilities(call, unit, block, own);
    tile_product<T>(block.rows, width, block.over_keys(), {own.scores, block.keys_padded, 1},
                    {own.values, sizes.time * panel_columns<T>}, false,
                    call.y + sizes.y(unit) + first * sizes.y_stride(), sizes.y_stride());
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
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes, elements, threads = problem.threads](Tensors operands, Workspace workspace) {
      const AttentionOperands at(op, 1);
      Call<T> call{sizes,
                   op,
                   elements,
                   document_starts(op, operands, at.starts),
                   {},
                   operands[0].as<T>(),
                   operands[at.outputs].as<T>(),
                   operands[at.outputs + 1].as<T>()};
      if (op.rate != 0)
        call.mask.emplace(op.stream, op.rate, *operands[at.seed].as<std::uint64_t>(),
                          *operands[at.seed + 1].as<std::int64_t>());
      attention(call, threads, workspace.data());
    };
  });
}

std::int64_t workspace_bytes(const op::Attention&, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0]);
  return problem.threads * (problem.dtype == DType::f64 ? thread_bytes<HeadScratch<double>>(sizes)
                                                        : thread_bytes<HeadScratch<float>>(sizes));
}

}  // namespace fourfold::kernels::cpu
