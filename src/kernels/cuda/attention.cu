// Causal attention on the device; op::Attention states the contract. No T x T tensor: a block keeps
// 16 queries in each warp and goes through the keys tile by tile with a running softmax (Dao et al.
// 2022, arXiv:2205.14135; Milakov, Gimelshein 2018, arXiv:1805.02867).
#include <limits>

#include "kernels/cuda/attention.cuh"
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

template <class Tiling, class T>
constexpr std::size_t shared_bytes =
    (Tiling::own_elements + 2 * Tiling::tile_elements + Tiling::score_elements) * sizeof(T);

/// The softmax of two rows of a warp so far: rows row_of(0) and row_of(2), with y not yet divided.
template <int tiles>
struct RunningSoftmax {
  float largest[2] = {-std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity()};
  float sum[2] = {};  // of this lane's columns
  WarpSums<tiles> y;

  /// Makes room for a new largest score of a row; returns what to subtract from its scores.
  __device__ float rescale(int half, float new_largest) {
    const float before = largest[half];
    largest[half] = fmaxf(before, new_largest);
    const float base = largest[half] == -std::numeric_limits<float>::infinity() ? 0 : largest[half];
    const float factor = expf(before - base);  // 0 for the first tile
    sum[half] *= factor;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
      for (int i = 2 * half; i < 2 * half + 2; ++i) y.sum[tile][i] *= factor;
    return base;
  }
};

template <class Tiling, class T>
__global__ void __launch_bounds__(Tiling::threads)
    attention(AttentionTensors<T> of, AttentionSizes sizes, float scale, AttentionDropout dropout) {
  constexpr int width = Tiling::width, keys = Tiling::tile_rows, stride = Tiling::row_stride;
  T* const queries = reinterpret_cast<T*>(dynamic_shared());
  T* const key_tile = queries + Tiling::own_elements;
  T* const value_tile = key_tile + Tiling::tile_elements;
  const int warp_row = 16 * warp_index();
  T* const probabilities = value_tile + Tiling::tile_elements + warp_row * Tiling::score_stride;

  const BlockHead at(sizes);
  const Visible visible{sizes.time, of.document_starts == nullptr
                                        ? nullptr
                                        : of.document_starts + at.sample * sizes.time};
  KeptProbabilities kept(dropout, at);
  // Later queries see more keys, so the blocks that take longest start first.
  const std::int64_t first_query =
      static_cast<std::int64_t>(gridDim.x - 1 - blockIdx.x) * Tiling::own_rows;
  load_rows<Tiling>(of.qkv + sizes.qkv(at.sample, 0, at.head), sizes.qkv_row(), first_query,
                    Tiling::own_rows, sizes, of.aligned, queries);

  RunningSoftmax<width / 8> softmax;
  const std::int64_t begin = visible.first_key(first_query) / keys * keys;
  const std::int64_t end = min(first_query + Tiling::own_rows, sizes.time);
  for (std::int64_t first_key = begin; first_key < end; first_key += keys) {
    __syncthreads();  // the last tile is no longer read
    load_rows<Tiling>(of.qkv + sizes.qkv(at.sample, 1, at.head), sizes.qkv_row(), first_key, keys,
                      sizes, of.aligned, key_tile);
    load_rows<Tiling>(of.qkv + sizes.qkv(at.sample, 2, at.head), sizes.qkv_row(), first_key, keys,
                      sizes, of.aligned, value_tile);
    __syncthreads();

    WarpSums<keys / 8> scores;
    warp_product<width>(InnerContiguous<T>{queries + warp_row * stride, stride},
                        InnerContiguous<T>{key_tile, stride}, scores);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t query = first_query + warp_row + row_of(2 * half);
      float largest = -std::numeric_limits<float>::infinity();
#pragma unroll
      for (int tile = 0; tile < keys / 8; ++tile)
        for (int i = 2 * half; i < 2 * half + 2; ++i)
          if (visible(query, first_key + 8 * tile + column_of(i)))
            largest = fmaxf(largest, scale * scores.sum[tile][i]);
      largest = row_reduce(largest, [](float a, float b) { return fmaxf(a, b); });
      const float base = softmax.rescale(half, largest);
#pragma unroll
      for (int tile = 0; tile < keys / 8; ++tile)
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          const std::int64_t key = first_key + 8 * tile + column_of(i);
          const float p = visible(query, key) ? expf(scale * scores.sum[tile][i] - base) : 0.F;
          softmax.sum[half] += p;
          probabilities[row_of(i) * Tiling::score_stride + 8 * tile + column_of(i)] =
              from_float<T>(p * kept.factor(query, key));
        }
    }
    __syncwarp();
    warp_product<keys>(InnerContiguous<T>{probabilities, Tiling::score_stride},
                       IndexContiguous<T>{value_tile, stride}, softmax.y);
    __syncwarp();
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t query = first_query + warp_row + row_of(2 * half);
    const float sum = row_reduce(softmax.sum[half], [](float a, float b) { return a + b; });
    if (query >= sizes.time) continue;
    if (lane_index() % 4 == 0)
      of.lse[sizes.lse(at.sample, at.head) + query] = softmax.largest[half] + logf(sum);
    T* const y = of.y + sizes.y(at.sample, at.head) + query * sizes.y_row();
#pragma unroll
    for (int tile = 0; tile < width / 8; ++tile)
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        const int d = 8 * tile + column_of(i);
        if (d < sizes.width) y[d] = from_float<T>(softmax.y.sum[tile][i] / sum);
      }
  }
}

}  // namespace

Enqueue prepare_row(const op::Attention& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0]);
  const AttentionDropout dropout(op, problem.shapes[0]);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.width)));
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_head_width(sizes.width, [&](auto width) -> Enqueue {
      using Tiling = AttentionTiling<T, decltype(width)::value>;
      const LaunchShape shape = attention_launch<Tiling>(sizes, shared_bytes<Tiling, T>);
      allow_shared_memory(attention<Tiling, T>, shape.shared_bytes);
      return [=, documents = op.documents](Tensors operands, Workspace, Stream stream) {
        const std::size_t seed = documents ? 2 : 1, y = seed + (dropout.drops ? 2 : 0);
        const AttentionTensors<T> of{
            operands[0].as<T>(), documents ? operands[1].as<std::int32_t>() : nullptr,
            operands[y].as<T>(), operands[y + 1].as<float>(),
            sizes.width % pack_size<T> == 0 && are_aligned(operands[0].data)};
        launch(attention<Tiling, T>, shape, stream, of, sizes, scale, dropout.at(operands, seed));
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
