// What kernels of layer norm share: sizes, and how they cut their work. R rows, C channels.
//
// Where sums over rows are taken, a block has a stretch of rows, and takes some of them at a time.
// Each of its threads has the same pack of channels of every row: what belongs to a channel stays
// in its registers, sums over a row pass through shared memory. A row for which a block has too few
// threads goes to a warp.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/fused_rows.h"
#include "kernels/norm_operands.h"

namespace fourfold::kernels::cuda {

struct NormSizes {
  std::int64_t rows, channels;
  bool whole_packs = false;  // a row is whole packs, and aligned in all tensors
};

inline NormSizes norm_sizes(const Shape& x) {
  return {x.elements(0, x.rank() - 1), x.back()};
}

/// Sizes for one call.
template <class T, class... Pointers>
NormSizes sizes_for(NormSizes sizes, Pointers... pointers) {
  sizes.whole_packs = sizes.channels % pack_size<T> == 0 && are_aligned(pointers...);
  return sizes;
}

struct Statistics {
  float mean, rstd;
};

/// The statistics of one row; the mean of a norm that is not centred, which has none, counts as 0.
__device__ inline Statistics statistics_at(const float* mean_R, const float* rstd_R,
                                           std::int64_t row) {
  return {mean_R == nullptr ? 0 : mean_R[row], rstd_R[row]};
}

// --- rows that a block has threads for

inline constexpr int few_threads = 256, many_threads = 1024, most_warps = many_threads / warp_lanes;

inline unsigned threads_of_row(const NormSizes& sizes, int pack) {
  return static_cast<unsigned>(ceil_divide(ceil_divide(sizes.channels, pack), warp_lanes) *
                               warp_lanes);
}
inline bool fits_a_block(const NormSizes& sizes, int pack) {
  return ceil_divide(sizes.channels, pack) <= many_threads;
}

/// A block for each stretch: as many as run at once on a large GPU, `blocks` of few_threads or the
/// like on a multiprocessor, and at least 16 rows for each. Requires fits_a_block.
inline LaunchShape launch_of_blocks(const NormSizes& sizes, int pack, int blocks) {
  constexpr std::int64_t multiprocessors = 132, least_rows = 16;
  LaunchShape shape;
  shape.threads = threads_of_row(sizes, pack);
  const std::int64_t wanted =
      multiprocessors * std::max<std::int64_t>(blocks * few_threads / shape.threads, 1);
  shape.blocks_x =
      static_cast<unsigned>(std::clamp<std::int64_t>(sizes.rows / least_rows, 1, wanted));
  return shape;
}

/// The rows of the calling block.
struct Stretch {
  std::int64_t first, last;

  __device__ Stretch(const NormSizes& sizes, std::int64_t stretches)
      : first(sizes.rows * blockIdx.x / stretches),
        last(sizes.rows * (blockIdx.x + 1) / stretches) {}
};

/// A pack of a row where `here`, else nothing.
__device__ inline WholePack part_where(bool here, WholePack there) {
  return {there.there && here};
}
__device__ inline PackPart part_where(bool here, PackPart there) {
  return {here ? there.count : 0, there.whole && here};
}

/// How a kernel is made: `plain`, where all packs are whole and nothing drops; for blocks of so
/// many threads.
template <bool is_plain, int most_threads>
struct Form {
  static constexpr bool plain = is_plain;
  static constexpr int threads = most_threads;

  /// How many blocks shall fit on a multiprocessor: so many where it is plain and they are small.
  static constexpr int blocks(int wanted) { return plain && threads == few_threads ? wanted : 1; }

  /// What is there of a thread's pack of each row.
  template <class T>
  static __device__ auto part(const NormSizes& sizes, std::int64_t channel) {
    const std::int64_t left = sizes.channels - channel;
    if constexpr (plain)
      return WholePack{left > 0};
    else
      return PackPart{left < 0 ? 0 : left, sizes.whole_packs && left > 0};
  }
};
/// use(Form<>()) for a call.
template <class Use>
void for_form(bool plain, unsigned threads, Use use) {
  if (threads <= few_threads)
    plain ? use(Form<true, few_threads>()) : use(Form<false, few_threads>());
  else
    plain ? use(Form<true, many_threads>()) : use(Form<false, many_threads>());
}

/// Sums over the block, each of as many values as there are, warp by warp in order. Every thread
/// gets them. `of_warps` may be used again after another barrier.
template <int count>
__device__ void block_sums(float (&values)[count], float (&of_warps)[most_warps][count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    values[i] = warp_sum(values[i]);
    if (lane_index() == 0) of_warps[warp_index()][i] = values[i];
  }
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / warp_lanes;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    values[i] = 0;
    for (int warp = 0; warp < warps; ++warp) values[i] += of_warps[warp][i];
  }
}

// --- longer rows

inline constexpr int rows_per_block = 4;

inline LaunchShape launch_of_warps(const NormSizes& sizes) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(sizes.rows, rows_per_block));
  shape.threads = rows_per_block * warp_lanes;
  return shape;
}

/// The row of the calling warp; may lie after the last one.
__device__ inline std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * rows_per_block + warp_index();
}

/// body(channel, which are there) for each pack of a row that the calling lane has.
template <class T, class Body>
__device__ void for_packs_of_lane(const NormSizes& sizes, Body body) {
  for (std::int64_t channel = lane_index() * pack_size<T>; channel < sizes.channels;
       channel += warp_lanes * pack_size<T>)
    body(channel, part_of_pack<T>(sizes.channels - channel, sizes.whole_packs));
}

}  // namespace fourfold::kernels::cuda
