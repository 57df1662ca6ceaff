// Attention on the device; op::Attention says what it computes. No T x T tensor: each warp
// keeps 16 or 32 queries and goes through the keys tile by tile with a running softmax (Dao 2023,
// arXiv:2307.08691; Milakov, Gimelshein 2018, arXiv:1805.02867). Probabilities stay in registers.
// Heads of more than 256 elements are split between two warps.
#include <limits>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_tiling.h"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

template <class T>
struct AttentionTensors {
  const T* qkv;
  const std::int32_t* document_starts;  // (B,T), or null
  T* y;
  float* lse;
  bool aligned;
};

/// The softmax of a warp's rows so far, with y not yet divided. Half 0 and 1 of a row tile are this
/// lane's rows row_of(0) and row_of(2).
template <int row_tiles, int tiles>
struct RunningSoftmax {
  float largest[row_tiles][2], sum[row_tiles][2];  // of products q k; of this lane's columns
  WarpSums<tiles> y[row_tiles];

  __device__ RunningSoftmax() {
    for (int rows = 0; rows < row_tiles; ++rows)
      for (int half = 0; half < 2; ++half) {
        largest[rows][half] = -std::numeric_limits<float>::infinity();
        sum[rows][half] = 0;
      }
  }

  /// Makes room for a row's new largest score; returns what to subtract from its scores.
  __device__ float rescale(int rows, int half, float new_largest, float scale) {
    const float before = largest[rows][half], after = fmaxf(before, new_largest);
    largest[rows][half] = after;
    const float base = after == -std::numeric_limits<float>::infinity() ? 0 : after;
    const float factor = exp2_approximate(scale * (before - base));  // 0 for the first tile
    sum[rows][half] *= factor;
    // After the first tiles a new largest score is rare.
    if (__ballot_sync(all_lanes, factor != 1) != 0) {
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile)
        for (int i = 2 * half; i < 2 * half + 2; ++i) y[rows].sum[tile][i] *= factor;
    }
    return scale * base;
  }

  /// Scores become probabilities, not yet divided; those that are not seen are -infinity. `scale`
  /// is that of scores times log2 e.
  template <int key_tiles>
  __device__ void take(WarpSums<key_tiles> (&scores)[row_tiles], float scale) {
#pragma unroll
    for (int rows = 0; rows < row_tiles; ++rows)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float new_largest = -std::numeric_limits<float>::infinity();
#pragma unroll
        for (int tile = 0; tile < key_tiles; ++tile)
          for (int i = 2 * half; i < 2 * half + 2; ++i)
            new_largest = fmaxf(new_largest, scores[rows].sum[tile][i]);
        new_largest = row_reduce(new_largest, [](float a, float b) { return fmaxf(a, b); });
        const float base = rescale(rows, half, new_largest, scale);
#pragma unroll
        for (int tile = 0; tile < key_tiles; ++tile)
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            float& score = scores[rows].sum[tile][i];
            score = exp2_approximate(scale * score - base);
            sum[rows][half] += score;
          }
      }
  }

  /// Divides y; returns the natural log sum exp of a row's scores.
  __device__ float finish(int rows, int half, float natural_scale) {
    const float total = row_reduce(sum[rows][half], [](float a, float b) { return a + b; });
    const float factor = 1 / total;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
      for (int i = 2 * half; i < 2 * half + 2; ++i) y[rows].sum[tile][i] *= factor;
    return natural_scale * largest[rows][half] + logf(total);
  }
};

/// change(sum, rows, tile, i) for each of a warp's scores.
template <int row_tiles, int tiles, class Change>
__device__ void for_each_score(WarpSums<tiles> (&scores)[row_tiles], Change&& change) {
#pragma unroll
  for (int rows = 0; rows < row_tiles; ++rows)
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) change(scores[rows].sum[tile][i], rows, tile, i);
}

/// Values of a tile arrive while its scores are computed, the next keys while values are
/// multiplied.
template <class Tiling, class Dropout, class T>
__global__ void __launch_bounds__(Tiling::threads)
    attention(AttentionTensors<T> of, AttentionSizes sizes, float scale, Dropout dropout) {
  begin_kernel();
  constexpr int keys = Tiling::tile_rows, row_tiles = Tiling::row_tiles;
  constexpr int stride = Tiling::row_stride, parts = Tiling::parts;
  constexpr int columns = Tiling::width / parts;
  T* const query_rows = reinterpret_cast<T*>(dynamic_shared());
  T* const key_tile = query_rows + Tiling::own_elements;
  T* const value_tile = key_tile + Tiling::tile_elements;
  float* const part_scores = reinterpret_cast<float*>(value_tile + Tiling::tile_elements);
  const int warp_row = 16 * row_tiles * (warp_index() / parts);
  const int first_column = columns * (warp_index() % parts);
  T* const own = query_rows + warp_row * stride + first_column;

  const int tiles = sizes.tiles(Tiling::own_rows);
  const BlockHead at(tiles, sizes.heads);
  const Visible visible(sizes, of.document_starts, at.sample);
  KeptProbabilities<Dropout> kept(dropout, at);
  // Later queries see more keys, so the blocks that take longest start first.
  const int first_query = (tiles - 1 - at.tile) * Tiling::own_rows;
  const Stretch queries{first_query + warp_row, 16 * row_tiles};
  // An offset: what is added to it stands in the arguments and takes no register.
  const std::int64_t at_keys = sizes.qkv(at.sample, 1, at.head);
  const auto load_part = [&](int part, int first_key, T* tile) {
    load_rows<Tiling, keys>(of.qkv + at_keys + (part - 1) * sizes.key_to_value(), sizes.qkv_row(),
                            first_key, sizes, of.aligned, tile);
    end_copy_group();
  };

  const int begin = visible.first_key(first_query) / keys * keys;
  const int end = visible.keys_end(first_query + Tiling::own_rows - 1);
  load_rows<Tiling, Tiling::own_rows>(of.qkv + sizes.qkv(at.sample, 0, at.head), sizes.qkv_row(),
                                      first_query, sizes, of.aligned, query_rows);
  load_part(1, begin, key_tile);
  wait_for_copies<0>();
  __syncthreads();
  RunningSoftmax<row_tiles, columns / 8> softmax;
  for (int first_key = begin; first_key < end; first_key += keys) {
    load_part(2, first_key, value_tile);
    const Stretch tile{first_key, keys};
    // All warps come to the barrier at which parts are summed.
    const bool sees = parts > 1 || visible.some(queries, tile);
    WarpFactor<T> probabilities[row_tiles][keys / 16] = {};
    if (sees) {
      kept.template decide<row_tiles, keys / 8>(queries.first, first_key, true);
      WarpSums<keys / 8> scores[row_tiles];
      add_product<columns>(InnerContiguous<T>{own, stride},
                           InnerContiguous<T>{key_tile + first_column, stride}, scores);
      if constexpr (parts > 1) sum_over_parts<parts>(scores, part_scores);
      if (!visible.all(queries, tile))
        for_each_score(scores, [&](float& score, int rows, int of_8, int i) {
          if (!visible(queries.first + 16 * rows + row_of(i), first_key + 8 * of_8 + column_of(i)))
            score = -std::numeric_limits<float>::infinity();
        });
      softmax.take(scores, scale * log2_of_e);
      if constexpr (!std::is_same_v<Dropout, NoDropout>)
        for_each_score(scores, [&](float& p, int rows, int of_8, int i) {
          p *= kept.template factor<keys / 8>(rows, of_8, i);
        });
      factors_of(scores, probabilities);
    }
    wait_for_copies<0>();
    __syncthreads();  // values are here, keys are no longer read
    if (first_key + keys < end) load_part(1, first_key + keys, key_tile);
    if (sees)
      add_product(probabilities, IndexContiguous<T>{value_tile + first_column, stride}, softmax.y);
    wait_for_copies<0>();
    __syncthreads();  // keys are here, values are no longer read
  }

#pragma unroll
  for (int rows = 0; rows < row_tiles; ++rows)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = queries.first + 16 * rows + row_of(2 * half);
      const float lse = softmax.finish(rows, half, scale);
      if (lane_index() % 4 == 0 && first_column == 0 && query < visible.time)
        of.lse[sizes.lse(at.sample, at.head) + query] = lse;
    }
  store_rows(softmax.y, queries.first, first_column, sizes.y_row(), sizes, of.aligned, stride, own,
             of.y + sizes.y(at.sample, at.head));
}

}  // namespace

Enqueue prepare_row(const op::Attention& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0], op.grouped, op.causal);
  const AttentionDropout dropout(op, problem.shapes[0]);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.width)));
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_head_width(sizes.width, [&](auto width) -> Enqueue {
      using Tiling = ForwardTiling<sizeof(T), decltype(width)::value>;
      const LaunchShape shape = attention_launch<Tiling>(sizes, sizes.heads);
      const auto kernel = []<class Dropout>(As<Dropout>) { return attention<Tiling, Dropout, T>; };
      allow_shared_memory(kernel(As<NoDropout>{}), shape.shared_bytes);
      allow_shared_memory(kernel(As<AttentionDropout>{}), shape.shared_bytes);
      return [=, documents = op.documents](Tensors operands, Workspace, Stream stream) {
        const std::size_t seed = documents ? 2 : 1, y = seed + (dropout.drops ? 2 : 0);
        const AttentionTensors<T> of{
            operands[0].as<T>(), documents ? operands[1].as<std::int32_t>() : nullptr,
            operands[y].as<T>(), operands[y + 1].as<float>(),
            sizes.width % pack_size<T> == 0 && are_aligned(operands[0].data, operands[y].data)};
        launch_attention(kernel, shape, stream, dropout.at(operands, seed), of, sizes, scale);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
