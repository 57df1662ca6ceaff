// Adds rows of a matrix to the rows of a table that they belong to, in an order that never changes:
// a stable sort of the matrix's rows by where they belong, then sums over stretches of the sorted
// list. N rows of the matrix, C channels, R rows of the table.
#pragma once

#include <bit>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {

/// A row of the matrix, and the table's row that it belongs to: R where it belongs to none.
struct RowPair {
  unsigned to, from;
};

/// Pairs that are sorted by lower digits.
struct SortedPairs {
  const RowPair* pairs_N;
  __device__ RowPair operator()(std::int64_t i) const { return pairs_N[i]; }
};

// --- the sort: for each digit, the lowest first, pairs are placed by it

inline constexpr int digit_bits = 8, digits = 1 << digit_bits;
inline constexpr unsigned sort_threads = digits;  // a thread for each digit
inline constexpr int sort_warps = sort_threads / warp_lanes;
inline constexpr int pairs_per_thread = 8;
inline constexpr std::int64_t pairs_per_block = std::int64_t{sort_threads} * pairs_per_thread;

/// The pairs of one block, a stretch of them for each warp: what a thread holds of them.
struct RankedPairs {
  RowPair pair[pairs_per_thread];
  unsigned rank[pairs_per_thread];  // among those of the warp with the same digit

  static __device__ std::int64_t place(int round) {
    return blockIdx.x * pairs_per_block +
           (warp_index() * pairs_per_thread + round) * std::int64_t{warp_lanes} + lane_index();
  }
};

__device__ inline unsigned digit_of(const RowPair& pair, int shift) {
  return pair.to >> shift & (digits - 1);
}

/// Reads the block's pairs. counts[warp][digit] becomes how many pairs of earlier warps have the
/// digit, to be read after a barrier; a thread gets how many of the block have the digit of its
/// number.
template <class Source>
__device__ unsigned rank_pairs(const Source& source, std::int64_t count, int shift,
                               unsigned (&counts)[sort_warps][digits], RankedPairs& ranked) {
  for (int warp = 0; warp < sort_warps; ++warp) counts[warp][threadIdx.x] = 0;
  __syncthreads();
  unsigned* const own = counts[warp_index()];
#pragma unroll
  for (int round = 0; round < pairs_per_thread; ++round) {
    const std::int64_t i = RankedPairs::place(round);
    const bool here = i < count;
    ranked.pair[round] = here ? source(i) : RowPair{0, 0};
    const unsigned digit = digit_of(ranked.pair[round], shift);
    unsigned same = __ballot_sync(all_lanes, here);
    for (int bit = 0; bit < digit_bits; ++bit) {
      const bool is_set = (digit >> bit & 1) != 0;
      const unsigned ballot = __ballot_sync(all_lanes, is_set);
      same &= is_set ? ballot : ~ballot;
    }
    const unsigned before = same & ((1U << lane_index()) - 1);
    ranked.rank[round] = own[digit] + static_cast<unsigned>(__popc(before));
    __syncwarp();  // all have read the count that one of them changes
    if (here && before == 0) own[digit] += static_cast<unsigned>(__popc(same));
    __syncwarp();
  }
  __syncthreads();
  unsigned total = 0;
  for (int warp = 0; warp < sort_warps; ++warp) {
    const unsigned of_warp = counts[warp][threadIdx.x];
    counts[warp][threadIdx.x] = total;
    total += of_warp;
  }
  return total;
}

template <class Source>
__global__ void count_digits(Source source, std::int64_t count, int shift, unsigned* counts) {
  begin_kernel();
  __shared__ unsigned of_warps[sort_warps][digits];
  RankedPairs ranked;
  counts[blockIdx.x * digits + threadIdx.x] = rank_pairs(source, count, shift, of_warps, ranked);
}

/// Each block adds up the counts of all by itself, a kilobyte for 2048 pairs, instead of waiting
/// for a launch that does.
template <class Source>
__global__ void place_pairs(Source source, std::int64_t count, int shift, const unsigned* counts,
                            RowPair* sorted_N) {
  begin_kernel();
  __shared__ unsigned of_warps[sort_warps][digits], totals[digits], starts[digits];
  unsigned total = 0, earlier = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) {
    const unsigned of_block = counts[block * digits + threadIdx.x];
    if (block < blockIdx.x) earlier += of_block;
    total += of_block;
  }
  totals[threadIdx.x] = total;
  RankedPairs ranked;
  rank_pairs(source, count, shift, of_warps, ranked);  // has a barrier
  unsigned start = earlier;
  for (unsigned digit = 0; digit < digits; ++digit)
    start += digit < threadIdx.x ? totals[digit] : 0;
  starts[threadIdx.x] = start;
  __syncthreads();
#pragma unroll
  for (int round = 0; round < pairs_per_thread; ++round) {
    if (RankedPairs::place(round) >= count) continue;
    const unsigned digit = digit_of(ranked.pair[round], shift);
    sorted_N[starts[digit] + of_warps[warp_index()][digit] + ranked.rank[round]] =
        ranked.pair[round];
  }
}

// --- the sums

inline constexpr unsigned sum_threads_of_row = 128;
inline constexpr std::int64_t pairs_per_stretch = 64;

/// Pairs with the same `to` are a run. A stretch adds its part of a run to the table where the run
/// begins in it, else it writes its part, which is its first one, to `heads`.
template <class T>
struct SummedRows {
  const RowPair* sorted_N;
  std::int64_t count, rows, channels;
  const T* matrix_NC;
  bool aligned, accumulate;
  float *heads, *table_RC;  // heads: (stretches, C)

  __device__ bool begins_before(std::int64_t pair) const {
    return pair > 0 && sorted_N[pair - 1].to == sorted_N[pair].to;
  }
  /// Writes a thread's part of a run; clears it.
  __device__ void put(std::int64_t stretch, bool is_head, unsigned to, std::int64_t channel,
                      float (&sum)[pack_size<T>]) const {
    const std::int64_t left = channels - channel;
    float* const out = (is_head ? heads + stretch * channels : table_RC + to * channels) + channel;
    for (int first = 0; first < pack_size<T>; first += pack_size<float>) {
      float values[pack_size<float>] = {};
      const std::int64_t count_here = left - first;
      const bool whole = aligned && count_here >= pack_size<float>;
      if (accumulate && !is_head) load_pack<float>(out + first, whole, count_here, values);
      for (int i = 0; i < pack_size<float>; ++i) {
        values[i] += sum[first + i];
        sum[first + i] = 0;
      }
      store_pack<float>(values, whole, count_here, out + first);
    }
  }
};

/// What one block of `threads` does of a row: which item it works on, and a thread's first channel.
template <class T>
struct RowSlice {
  std::int64_t item, channel;
  static std::int64_t slices(std::int64_t channels) {
    return ceil_divide(channels, sum_threads_of_row * pack_size<T>);
  }
  __device__ explicit RowSlice(std::int64_t channels) {
    constexpr std::int64_t at_once = std::int64_t{sum_threads_of_row} * pack_size<T>;
    const std::int64_t count = (channels + at_once - 1) / at_once;
    item = blockIdx.x / count;
    channel = blockIdx.x % count * at_once + threadIdx.x * std::int64_t{pack_size<T>};
  }
};

/// A block for each stretch and slice of the channels.
template <class T>
__global__ void sum_runs(SummedRows<T> of) {
  begin_kernel();
  constexpr int at_once = 4;  // rows under way
  const auto [stretch, channel] = RowSlice<T>(of.channels);
  if (channel >= of.channels) return;
  const std::int64_t begin = stretch * pairs_per_stretch,
                     end = min(begin + pairs_per_stretch, of.count);
  const std::int64_t left = of.channels - channel;
  const bool whole = of.aligned && left >= pack_size<T>;
  bool is_head = of.begins_before(begin);
  float sum[pack_size<T>] = {};
  for (std::int64_t first = begin; first < end; first += at_once) {
    RowPair pairs[at_once];
    float rows[at_once][pack_size<T>] = {};
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      pairs[i] = of.sorted_N[min(first + i, end - 1)];
      if (first + i < end && pairs[i].to < of.rows)
        load_pack<T>(of.matrix_NC + pairs[i].from * of.channels + channel, whole, left, rows[i]);
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const std::int64_t next = first + i + 1;
      if (next > end || pairs[i].to >= of.rows) return;  // who belongs to no row comes last
      for (int j = 0; j < pack_size<T>; ++j) sum[j] += rows[i][j];
      if (next < end && of.sorted_N[next].to == pairs[i].to) continue;
      of.put(stretch, is_head, pairs[i].to, channel, sum);
      is_head = false;
    }
  }
}

/// A block for each border between stretches, and slice: adds what later stretches have of a run
/// that begins in the stretch before the border, in order.
template <class T>
__global__ void join_runs(SummedRows<T> of) {
  begin_kernel();
  const auto [border, channel] = RowSlice<float>(of.channels);
  if (channel >= of.channels) return;
  const std::int64_t begin = (border + 1) * pairs_per_stretch;
  const unsigned to = of.sorted_N[begin].to;
  const std::int64_t before = begin - pairs_per_stretch;
  if (to >= of.rows || !of.begins_before(begin) ||
      (of.sorted_N[before].to == to && of.begins_before(before)))
    return;
  // Stretches [border + 1, end) have a head of the run.
  const std::int64_t stretches = (of.count + pairs_per_stretch - 1) / pairs_per_stretch;
  std::int64_t last = border + 1, end = stretches;
  while (end - last > 1) {
    const std::int64_t middle = (last + end) / 2;
    (of.sorted_N[middle * pairs_per_stretch].to == to ? last : end) = middle;
  }
  constexpr int size = pack_size<float>;
  const std::int64_t left = of.channels - channel;
  const bool whole = of.aligned && left >= size;
  float* const out = of.table_RC + to * of.channels + channel;
  float sum[size], head[size];
  load_pack<float>(out, whole, left, sum);
#pragma unroll 4
  for (std::int64_t stretch = border + 1; stretch < end; ++stretch) {
    load_pack<float>(of.heads + stretch * of.channels + channel, whole, left, head);
    for (int i = 0; i < size; ++i) sum[i] += head[i];
  }
  store_pack<float>(sum, whole, left, out);
}

// --- launches

/// Sizes of one sum, and where its scratch lies in a workspace.
struct RowSumSizes {
  std::int64_t count, rows, channels;

  int passes() const {
    return static_cast<int>(ceil_divide(std::bit_width(static_cast<unsigned>(rows)), digit_bits));
  }
  std::int64_t blocks() const { return ceil_divide(count, pairs_per_block); }
  std::int64_t stretches() const { return ceil_divide(count, pairs_per_stretch); }
  // All of 16 bytes' multiples.
  std::int64_t pairs_bytes() const { return ceil_divide(count, 2) * 2 * sizeof(RowPair); }
  std::int64_t counts_bytes() const { return blocks() * digits * sizeof(unsigned); }
  std::int64_t heads_bytes() const {
    return ceil_divide(stretches() * channels, pack_size<float>) * 16;
  }
  std::int64_t workspace_bytes() const {
    return 2 * pairs_bytes() + counts_bytes() + heads_bytes();
  }
};

/// Sorts the pairs of a source; gives where they lie.
template <class Source>
const RowPair* enqueue_sort(const Source& source, const RowSumSizes& sizes, Workspace workspace,
                            Stream stream) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(sizes.blocks());
  shape.threads = sort_threads;
  auto* const first = reinterpret_cast<RowPair*>(workspace.data());
  auto* const second = reinterpret_cast<RowPair*>(workspace.data() + sizes.pairs_bytes());
  auto* const counts = reinterpret_cast<unsigned*>(workspace.data() + 2 * sizes.pairs_bytes());
  RowPair* out = first;
  launch(count_digits<Source>, shape, stream, source, sizes.count, 0, counts);
  launch(place_pairs<Source>, shape, stream, source, sizes.count, 0, counts, out);
  for (int pass = 1; pass < sizes.passes(); ++pass) {
    const SortedPairs in{out};
    out = out == first ? second : first;
    launch(count_digits<SortedPairs>, shape, stream, in, sizes.count, pass * digit_bits, counts);
    launch(place_pairs<SortedPairs>, shape, stream, in, sizes.count, pass * digit_bits, counts,
           out);
  }
  return out;
}

/// table (R, C) = sums of the rows of matrix (N, C), or adds them; rows of the table to which none
/// belongs are left as they are. source(i) is the pair of row i, i < N.
template <class T, class Source>
void enqueue_sums_by_row(const Source& source, const RowSumSizes& sizes, bool accumulate,
                         const T* matrix_NC, float* table_RC, Workspace workspace, Stream stream) {
  auto* const heads =
      reinterpret_cast<float*>(workspace.data() + 2 * sizes.pairs_bytes() + sizes.counts_bytes());
  const SummedRows<T> of{enqueue_sort(source, sizes, workspace, stream),
                         sizes.count,
                         sizes.rows,
                         sizes.channels,
                         matrix_NC,
                         sizes.channels % pack_size<T> == 0 && are_aligned(matrix_NC, table_RC),
                         accumulate,
                         heads,
                         table_RC};
  LaunchShape shape;
  shape.threads = sum_threads_of_row;
  shape.blocks_x = static_cast<unsigned>(sizes.stretches() * RowSlice<T>::slices(sizes.channels));
  launch(sum_runs<T>, shape, stream, of);
  if (sizes.stretches() < 2) return;
  shape.blocks_x =
      static_cast<unsigned>((sizes.stretches() - 1) * RowSlice<float>::slices(sizes.channels));
  launch(join_runs<T>, shape, stream, of);
}

}  // namespace fourfold::kernels::cuda
