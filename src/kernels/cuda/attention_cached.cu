// Attention that continues a text, on the device; op::AttentionCached says what it computes. P
// positions of the cache, D head width. A block for each query, whose warps share the positions.
#include <limits>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr int cached_warps = 4;
constexpr unsigned cached_threads = cached_warps * warp_lanes;

template <class T>
struct CachedTensors {
  const T* qkv;
  const std::int32_t* position;
  T *cache, *y;
  std::int64_t positions;

  /// part 0: key, 1: value.
  __device__ std::int64_t cached(const AttentionSizes& sizes, std::int64_t sample,
                                 std::int64_t part, std::int64_t at, std::int64_t head) const {
    return (((sample * 2 + part) * positions + at) * sizes.groups + sizes.group_of(head)) *
           sizes.width;
  }
};

/// A block for each token of each group.
template <class T>
__global__ void store_in_cache(CachedTensors<T> of, AttentionSizes sizes) {
  begin_kernel();
  const BlockHead at(sizes.tiles(1), sizes.groups);
  const std::int64_t t = at.tile, head = at.head * sizes.of_group;
  for (std::int64_t part = 0; part < 2; ++part) {
    const T* const from = of.qkv + sizes.qkv(at.sample, part + 1, head) + t * sizes.qkv_row();
    T* const to = of.cache + of.cached(sizes, at.sample, part, *of.position + t, head);
    for (std::int64_t d = threadIdx.x; d < sizes.width; d += cached_threads) to[d] = from[d];
  }
}

/// A block for each token of each head. `values`: elements of a head that one lane holds.
template <int values, class T>
__global__ void attention_cached(CachedTensors<T> of, AttentionSizes sizes, float scale) {
  begin_kernel();
  __shared__ float largest_of[cached_warps], sum_of[cached_warps];
  __shared__ float y_of[cached_warps][values * warp_lanes];
  const BlockHead at(sizes.tiles(1), sizes.heads);
  const std::int64_t t = at.tile, count = *of.position + t + 1;
  const auto element = [&](const T* row, int i) {
    const std::int64_t d = i * warp_lanes + lane_index();
    return d < sizes.width ? to_float(row[d]) : 0.F;
  };
  const T* const query_row = of.qkv + sizes.qkv(at.sample, 0, at.head) + t * sizes.qkv_row();
  float query[values], y[values] = {}, sum = 0;
  float largest = -std::numeric_limits<float>::infinity();
  for (int i = 0; i < values; ++i) query[i] = element(query_row, i);
  for (std::int64_t p = warp_index(); p < count; p += cached_warps) {
    const T* const key = of.cache + of.cached(sizes, at.sample, 0, p, at.head);
    const T* const value = of.cache + of.cached(sizes, at.sample, 1, p, at.head);
    float score = 0;
    for (int i = 0; i < values; ++i) score += query[i] * element(key, i);
    score = scale * warp_sum(score);
    const float before = largest;
    largest = fmaxf(largest, score);
    const float factor = expf(before - largest), weight = expf(score - largest);
    sum = sum * factor + weight;
    for (int i = 0; i < values; ++i) y[i] = y[i] * factor + weight * element(value, i);
  }
  if (lane_index() == 0) {
    largest_of[warp_index()] = largest;
    sum_of[warp_index()] = sum;
  }
  for (int i = 0; i < values; ++i) y_of[warp_index()][i * warp_lanes + lane_index()] = y[i];
  __syncthreads();

  for (int warp = 0; warp < cached_warps; ++warp) largest = fmaxf(largest, largest_of[warp]);
  for (std::int64_t d = threadIdx.x; d < sizes.width; d += cached_threads) {
    float total = 0, all = 0;
    for (int warp = 0; warp < cached_warps; ++warp) {
      const float factor = expf(largest_of[warp] - largest);  // 0 for a warp without positions
      all += factor * sum_of[warp];
      total += factor * y_of[warp][d];
    }
    of.y[sizes.y(at.sample, at.head) + t * sizes.y_row() + d] = from_float<T>(total / all);
  }
}

}  // namespace

Enqueue prepare_row(const op::AttentionCached& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0], op.grouped);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.width)));
  LaunchShape shape, of_groups;
  shape.blocks_x = static_cast<unsigned>(sizes.batch * sizes.heads * sizes.time);
  of_groups.blocks_x = static_cast<unsigned>(sizes.batch * sizes.groups * sizes.time);
  shape.threads = of_groups.threads = cached_threads;
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_head_width(sizes.width, [&](auto width) -> Enqueue {
      return [=, positions = op.positions](Tensors operands, Workspace, Stream stream) {
        const CachedTensors<T> of{operands[0].as<T>(), operands[1].as<std::int32_t>(),
                                  operands[2].as<T>(), operands[3].as<T>(), positions};
        launch(store_in_cache<T>, of_groups, stream, of, sizes);
        launch(attention_cached<decltype(width)::value / warp_lanes, T>, shape, stream, of, sizes,
               scale);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
