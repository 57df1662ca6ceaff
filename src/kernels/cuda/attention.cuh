// What the attention kernels share: sizes, tiles of rows in shared memory, which scores count. T
// time, D head width, padded to `width` with zeros in shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention_tiling.h"
#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/warp_product.cuh"

namespace fourfold::kernels::cuda {

inline constexpr float log2_of_e = 1.44269504F;

/// Offsets into qkv, y (B,T,H,D) and lse (B,H,T).
struct AttentionSizes : QkvSizes {
  bool causal;

  AttentionSizes(const Shape& qkv, bool is_grouped, bool is_causal = true)
      : QkvSizes(qkv, is_grouped), causal(is_causal) {
    require(time < 1 << 30, "attention on CUDA has less than 2^30 tokens in a sample");
  }
  /// How many tiles of so many tokens a head has.
  __device__ int tiles(int tokens) const { return (static_cast<int>(time) + tokens - 1) / tokens; }
  __device__ std::int64_t y_row() const { return heads * width; }
  /// Where token 0 lies; part 0: query, 1: key, 2: value.
  __device__ std::int64_t qkv(std::int64_t sample, std::int64_t part, std::int64_t head) const {
    return sample * time * qkv_row() + in_token(part, head);
  }
  /// From a key to its value.
  __device__ std::int64_t key_to_value() const { return grouped ? width : heads * width; }
  __device__ std::int64_t y(std::int64_t sample, std::int64_t head) const {
    return sample * time * heads * width + head * width;
  }
  __device__ std::int64_t lse(std::int64_t sample, std::int64_t head) const {
    return (sample * heads + head) * time;
  }
};

/// The sample and head of a block, and which of the `tiles` of each head it works on: blocks count
/// tiles first. Where a sample has `of_sample` groups, the head is the number of a group.
struct BlockHead {
  int tile, sample, head;
  __device__ BlockHead(int tiles, std::int64_t of_sample)
      : tile(static_cast<int>(blockIdx.x % static_cast<unsigned>(tiles))) {
    const unsigned of_all = blockIdx.x / static_cast<unsigned>(tiles);
    sample = static_cast<int>(of_all / static_cast<unsigned>(of_sample));
    head = static_cast<int>(of_all % static_cast<unsigned>(of_sample));
  }
};

/// Calls use(width) with the smallest width that heads of `width` fit into, as a constant.
template <class Use>
auto for_head_width(std::int64_t width, Use&& use) {
  require(width >= 1 && width <= most_head_width, "attention has heads that kernels take");
  if (width <= 32) return use(std::integral_constant<int, 32>{});
  if (width <= 64) return use(std::integral_constant<int, 64>{});
  if (width <= 128) return use(std::integral_constant<int, 128>{});
  if (width <= 256) return use(std::integral_constant<int, 256>{});
  if (width <= 384) return use(std::integral_constant<int, 384>{});
  return use(std::integral_constant<int, most_head_width>{});
}

/// Rows first ... first + count - 1 of a head into shared memory, where they are after
/// wait_for_copies and a barrier; zeros after the last token and after D. `from` is the head of
/// token 0, `step` the distance of tokens.
template <class Tiling, int count, class T>
__device__ void load_rows(const T* from, std::int64_t step, int first, const AttentionSizes& sizes,
                          bool aligned, T* to) {
  constexpr int packs = Tiling::width / pack_size<T>;
  for (int i = static_cast<int>(threadIdx.x); i < count * packs;
       i += static_cast<int>(Tiling::threads)) {
    const int row = i / packs, column = i % packs * pack_size<T>;
    const std::int64_t token = first + row;
    const std::int64_t left = token < sizes.time ? sizes.width - column : 0;
    T* const place = to + row * Tiling::row_stride + column;
    if (aligned) {
      copy_async<16>(place, left > 0 ? from + token * step + column : from, left > 0);
    } else {
      float values[pack_size<T>] = {};
      if (left > 0) load_pack<T>(from + token * step + column, false, left, values);
      store_pack<T>(values, true, pack_size<T>, place);
    }
  }
}

/// Writes sums, a warp's rows from `first` on and columns from `column` on, in 16 bytes at a time
/// where addresses allow it. `staging` is shared memory for these rows that nobody reads any more.
template <int row_tiles, int tiles, class T>
__device__ void store_rows(const WarpSums<tiles> (&sums)[row_tiles], int first, int column,
                           std::int64_t step, const AttentionSizes& sizes, bool aligned, int stride,
                           T* staging, T* to) {
#pragma unroll
  for (int rows = 0; rows < row_tiles; ++rows)
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
      for (int half = 0; half < 2; ++half) {
        T* const place =
            staging + (16 * rows + row_of(2 * half)) * stride + 8 * tile + column_of(0);
        const float(&sum)[4] = sums[rows].sum[tile];
        if constexpr (sizeof(T) == 2) {
          *reinterpret_cast<std::uint32_t*>(place) = bf16_pair(sum[2 * half], sum[2 * half + 1]);
        } else {
          place[0] = sum[2 * half];
          place[1] = sum[2 * half + 1];
        }
      }
  __syncwarp();
  constexpr int packs = 8 * tiles / pack_size<T>;
  for (int i = lane_index(); i < 16 * row_tiles * packs; i += warp_lanes) {
    const int row = i / packs, first_of_pack = i % packs * pack_size<T>;
    const std::int64_t left = sizes.width - column - first_of_pack;
    const std::int64_t token = first + row;
    if (token >= sizes.time || left <= 0) continue;
    float values[pack_size<T>];
    load_pack<T>(staging + row * stride + first_of_pack, true, pack_size<T>, values);
    store_pack<T>(values, aligned, left, to + token * step + column + first_of_pack);
  }
}

/// Neighbouring tokens.
struct Stretch {
  int first, count;
  __device__ int last() const { return first + count - 1; }
};

/// Which keys a query sees: of causal attention those of its document up to itself, else all.
/// Tokens are counted in 32 bits, two of which take the registers of one in 64.
struct Visible {
  int time;
  bool causal;
  const std::int32_t* document_starts;  // of the sample (T), or null

  __device__ Visible(const AttentionSizes& sizes, const std::int32_t* starts, std::int64_t sample)
      : time(static_cast<int>(sizes.time)),
        causal(sizes.causal),
        document_starts(starts == nullptr ? nullptr : starts + sample * sizes.time) {}

  __device__ int first_key(int query) const {
    return document_starts == nullptr ? 0 : document_starts[query];
  }
  __device__ int last_key(int query) const { return causal ? query : time - 1; }
  /// The end of the keys that queries up to this one see, and the first query that sees a key.
  __device__ int keys_end(int last_query) const {
    return causal ? min(last_query + 1, time) : time;
  }
  __device__ int first_query(int key) const { return causal ? key : 0; }
  __device__ bool operator()(int query, int key) const {
    return query < time && key <= last_key(query) && key >= first_key(query);
  }
  /// False: no query of the stretch sees any of the keys.
  __device__ bool some(const Stretch& queries, const Stretch& keys) const {
    return queries.first < time && keys.first < time && keys.first <= last_key(queries.last()) &&
           keys.last() >= first_key(queries.first);
  }
  /// Every query before T of the stretch sees all of the keys.
  __device__ bool all(const Stretch& queries, const Stretch& keys) const {
    return keys.last() <= last_key(queries.first) &&
           keys.first >= first_key(min(queries.last(), time - 1));
  }
  /// The first query after all those that see a key up to this one.
  __device__ int queries_end(int key) const {
    if (document_starts == nullptr) return time;
    int sees = min(key, time - 1), end = time;  // starts do not fall along T
    while (end - sees > 1) {
      const int middle = sees + (end - sees) / 2;
      (document_starts[middle] <= key ? sees : end) = middle;
    }
    return end;
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

/// In its place where nothing is dropped.
struct NoDropout {};

/// The factors for one sample and head.
template <class Dropout>
class KeptProbabilities {
 public:
  __device__ KeptProbabilities(const AttentionDropout& dropout, const BlockHead& at)
      : dropout_(dropout),
        decisions_(dropout.stream, dropout.threshold, *dropout.seed, *dropout.step),
        sample_(global_sample(dropout.window, at.sample)),
        head_(at.head) {}

  __device__ void go_to(int head) { head_ = head; }

  /// Decides on this lane's scores of a warp, at most 64. row_is_query: rows of the warp's sums are
  /// queries, columns keys; else the other way round. Decided beforehand and kept as bits: beside
  /// the scores there is no room in registers for what random numbers take.
  template <int row_tiles, int tiles>
  __device__ void decide(int first_row, int first_column, bool row_is_query) {
    static_assert(row_tiles * tiles * 4 <= 64);
    dropped_ = 0;
#pragma unroll 1
    for (int pair = 0; pair < row_tiles * tiles * 2; ++pair) {
      const int half = pair % 2, tile = pair / 2 % tiles, rows = pair / 2 / tiles;
      const int row = first_row + 16 * rows + row_of(2 * half);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = first_column + 8 * tile + column_of(i);
        const std::uint64_t element =
            dropout_.elements.row(sample_, head_, row_is_query ? row : column) +
            static_cast<std::uint64_t>(row_is_query ? column : row);
        if (decisions_.dropped(element)) dropped_ |= std::uint64_t{1} << (2 * pair + i);
      }
    }
  }
  /// The place of sum i of a tile.
  template <int tiles>
  __device__ float factor(int rows, int tile, int i) const {
    const bool dropped = (dropped_ >> ((rows * tiles + tile) * 4 + i) & 1) != 0;
    return dropped ? 0 : dropout_.kept_factor;
  }

 private:
  const AttentionDropout& dropout_;
  DroppedElements decisions_;
  std::uint64_t sample_, dropped_ = 0;
  int head_;
};
template <>
class KeptProbabilities<NoDropout> {
 public:
  __device__ KeptProbabilities(NoDropout, const BlockHead&) {}
  __device__ void go_to(int) {}
  template <int row_tiles, int tiles>
  __device__ void decide(int, int, bool) {}
  template <int tiles>
  __device__ float factor(int, int, int) const {
    return 1;
  }
};

/// Over the four lanes that hold one row of WarpSums.
template <class Combine>
__device__ float row_reduce(float value, Combine combine) {
  value = combine(value, shuffle_xor(value, 1));
  return combine(value, shuffle_xor(value, 2));
}

/// The sums of `parts` neighbouring warps that share rows become the sum over all of them, added in
/// one order. All warps of the block come here; `shared` has room for the sums of each, which
/// nobody reads any more when they come the next time.
template <int parts, int row_tiles, int tiles>
__device__ void sum_over_parts(WarpSums<tiles> (&sums)[row_tiles], float* shared) {
  constexpr int count = row_tiles * tiles * 4;  // sums of a lane
  const auto place = [&](int warp, int rows, int tile, int i) -> float& {
    return shared[(warp * count + (rows * tiles + tile) * 4 + i) * warp_lanes + lane_index()];
  };
#pragma unroll
  for (int rows = 0; rows < row_tiles; ++rows)
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
      for (int i = 0; i < 4; ++i) place(warp_index(), rows, tile, i) = sums[rows].sum[tile][i];
  __syncthreads();
  const int first_warp = warp_index() / parts * parts;
#pragma unroll
  for (int rows = 0; rows < row_tiles; ++rows)
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
      for (int i = 0; i < 4; ++i) {
        float sum = place(first_warp, rows, tile, i);
        for (int part = 1; part < parts; ++part) sum += place(first_warp + part, rows, tile, i);
        sums[rows].sum[tile][i] = sum;
      }
}

/// launch(kernel of what is dropped, shape, stream, arguments..., dropout).
template <class Choose, class... Arguments>
void launch_attention(Choose&& kernel, const LaunchShape& shape, Stream stream,
                      const AttentionDropout& dropout, const Arguments&... arguments) {
  if (dropout.drops)
    launch(kernel(As<AttentionDropout>{}), shape, stream, arguments..., dropout);
  else
    launch(kernel(As<NoDropout>{}), shape, stream, arguments..., NoDropout{});
}

/// For heads, or groups, of which a sample has so many.
template <class Tiling>
LaunchShape attention_launch(const AttentionSizes& sizes, std::int64_t of_sample) {
  LaunchShape shape;
  shape.blocks_x =
      static_cast<unsigned>(sizes.batch * of_sample * ceil_divide(sizes.time, Tiling::own_rows));
  shape.threads = Tiling::threads;
  shape.shared_bytes = Tiling::shared_bytes;
  return shape;
}

}  // namespace fourfold::kernels::cuda
