// What the attention kernels share: sizes, tiles of rows in shared memory, which scores count. T
// time, D head width, padded to `width` with zeros in shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/warp_product.cuh"

namespace fourfold::kernels::cuda {

/// Offsets into qkv (B,T,3,H,D), y (B,T,H,D) and lse (B,H,T).
struct AttentionSizes {
  std::int64_t batch, time, heads, width;

  explicit AttentionSizes(const Shape& qkv)
      : batch(qkv[0]), time(qkv[1]), heads(qkv[3]), width(qkv[4]) {}
  __device__ std::int64_t qkv_row() const { return 3 * heads * width; }
  __device__ std::int64_t y_row() const { return heads * width; }
  /// Of token 0; part 0: query, 1: key, 2: value.
  __device__ std::int64_t qkv(std::int64_t sample, std::int64_t part, std::int64_t head) const {
    return (sample * time * 3 + part) * heads * width + head * width;
  }
  __device__ std::int64_t y(std::int64_t sample, std::int64_t head) const {
    return sample * time * heads * width + head * width;
  }
  __device__ std::int64_t lse(std::int64_t sample, std::int64_t head) const {
    return (sample * heads + head) * time;
  }
};

/// The sample and head of a block: blocks along y count both.
struct BlockHead {
  std::int64_t sample, head;
  __device__ explicit BlockHead(const AttentionSizes& sizes)
      : sample(blockIdx.y / sizes.heads), head(blockIdx.y % sizes.heads) {}
};

/// How a kernel for heads of up to `padded_width` cuts its work: each warp has 16 rows of its own,
/// and goes through the others in tiles.
template <class T, int padded_width>
struct AttentionTiling {
  static constexpr int width = padded_width;
  static constexpr int warps = width > 128 ? 2 : 4;
  static constexpr unsigned threads = warps * warp_lanes;
  static constexpr int own_rows = 16 * warps;
  static constexpr int tile_rows = sizeof(T) == 2 && width <= 128 ? 64 : 32;
  // 16 more bytes in each row of shared memory spread neighbouring rows over its banks.
  static constexpr int row_stride = width + pack_size<T>;
  static constexpr int score_stride = tile_rows + pack_size<T>;
  static constexpr int own_elements = own_rows * row_stride;
  static constexpr int tile_elements = tile_rows * row_stride;
  static constexpr int score_elements = own_rows * score_stride;
};

/// Calls use(width) with the smallest width that heads of `width` fit into, as a constant.
template <class Use>
auto for_head_width(std::int64_t width, Use&& use) {
  require(width >= 1 && width <= 256, "attention on CUDA has heads of at most 256 elements");
  if (width <= 32) return use(std::integral_constant<int, 32>{});
  if (width <= 64) return use(std::integral_constant<int, 64>{});
  if (width <= 128) return use(std::integral_constant<int, 128>{});
  return use(std::integral_constant<int, 256>{});
}

/// Rows first ... first + count - 1 of a head into shared memory; zeros behind the last token and
/// behind D. `from` is the head of token 0, `step` the distance of tokens.
template <class Tiling, class T>
__device__ void load_rows(const T* from, std::int64_t step, std::int64_t first, int count,
                          const AttentionSizes& sizes, bool aligned, T* to) {
  constexpr int packs = Tiling::width / pack_size<T>;
  for (int i = static_cast<int>(threadIdx.x); i < count * packs;
       i += static_cast<int>(Tiling::threads)) {
    const int row = i / packs, column = i % packs * pack_size<T>;
    const std::int64_t token = first + row;
    const std::int64_t left = token < sizes.time ? sizes.width - column : 0;
    float values[pack_size<T>] = {};
    if (left > 0)
      load_pack<T>(from + token * step + column, aligned && left >= pack_size<T>, left, values);
    store_pack<T>(values, true, pack_size<T>, to + row * Tiling::row_stride + column);
  }
}

/// Which keys a query sees: those of its document up to itself.
struct Visible {
  std::int64_t time;
  const std::int32_t* document_starts;  // of the sample (T), or null

  __device__ std::int64_t first_key(std::int64_t query) const {
    return document_starts == nullptr ? 0 : document_starts[query];
  }
  __device__ bool operator()(std::int64_t query, std::int64_t key) const {
    return query < time && key <= query && key >= first_key(query);
  }
};

/// The factor of each probability under dropout, prepared on the host.
struct AttentionDropout {
  bool drops = false;
  RandomStream stream;
  std::uint32_t threshold = 0;
  float kept_factor = 1;
  op::SampleWindow window;
  AttentionElements elements{};
  const std::uint64_t* seed = nullptr;
  const std::int64_t* step = nullptr;

  template <class AttentionOp>
  AttentionDropout(const AttentionOp& op, const Shape& qkv)
      : drops(op.rate > 0),
        stream(op.stream),
        threshold(dropout_threshold(op.rate)),
        kept_factor(static_cast<float>(1 / (1 - op.rate))),
        window(op.window),
        elements(attention_elements(op, qkv)) {}

  AttentionDropout at(Tensors operands, std::size_t seed_index) const {
    AttentionDropout bound = *this;
    if (!drops) return bound;
    bound.seed = operands[seed_index].as<std::uint64_t>();
    bound.step = operands[seed_index + 1].as<std::int64_t>();
    return bound;
  }
};

/// The decisions for one sample and head.
class KeptProbabilities {
 public:
  __device__ KeptProbabilities(const AttentionDropout& dropout, const BlockHead& at)
      : dropout_(dropout),
        decisions_(dropout.stream, dropout.threshold, dropout.drops ? *dropout.seed : 0,
                   dropout.drops ? *dropout.step : 0),
        sample_(global_sample(dropout.window, at.sample)),
        head_(at.head) {}

  __device__ float factor(std::int64_t query, std::int64_t key) {
    if (!dropout_.drops) return 1;
    const std::uint64_t row = dropout_.elements.row(sample_, head_, query);
    return decisions_.dropped(row + static_cast<std::uint64_t>(key)) ? 0 : dropout_.kept_factor;
  }

 private:
  const AttentionDropout& dropout_;
  DroppedElements decisions_;
  std::uint64_t sample_;
  std::int64_t head_;
};

/// Over the four lanes that hold one row of WarpSums.
template <class Combine>
__device__ float row_reduce(float value, Combine combine) {
  value = combine(value, shuffle_xor(value, 1));
  return combine(value, shuffle_xor(value, 2));
}

template <class Tiling>
LaunchShape attention_launch(const AttentionSizes& sizes, std::size_t shared_bytes) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(sizes.time, Tiling::own_rows));
  shape.blocks_y = static_cast<unsigned>(sizes.batch * sizes.heads);
  shape.threads = Tiling::threads;
  shape.shared_bytes = shared_bytes;
  return shape;
}

}  // namespace fourfold::kernels::cuda
