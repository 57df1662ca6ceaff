// The gradients of a norm with sums over rows, by tiles of rows that are copied to shared memory
// ahead of their use. R rows, C channels.
//
// Of a tile, warps sum over a row each, or two of them over one; then each thread computes the same
// pack of channels of every row, or of every second, fourth, ... row, and keeps its sums over rows.
// So a thread has three packs of sums, where a warp that kept a row would have those of a whole
// row's share: registers are left for two blocks on a multiprocessor, and copies take none.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cuda/block_copies.cuh"
#include "kernels/cuda/norm_gradient.cuh"

namespace fourfold::kernels::cuda {

/// What tiles of a block take at most: a GPU of compute capability 8.6 has 99 KiB for a block.
inline constexpr std::int64_t most_tile_bytes = 96 << 10;
inline constexpr int most_tile_rows = 8, packs_of_lane = 4, most_warps_of_row = 2;

/// How rows are cut into tiles.
struct NormTiles {
  int rows;          // of a tile
  int warps_of_row;  // that sum over one
  int stages;        // tiles in shared memory
  int lanes;         // threads of a row's packs, a multiple of a warp
  LaunchShape shape;
};

/// Nothing where rows are too wide for two tiles, where they are not whole packs, or where elements
/// drop: nothing depends on where operands lie, so that their place in memory changes no bit.
template <class X, class T>
std::optional<NormTiles> tiles_for(const NormGradientsOf<X, T>& of) {
  constexpr std::int64_t multiprocessors = 132, least_rows = 16;
  const auto lanes = static_cast<int>(threads_of_row(of.sizes, pack_size<T>));
  if (of.sizes.channels % pack_size<T> != 0 || of.residual.drops || lanes > few_threads)
    return std::nullopt;
  NormTiles tiles{};
  tiles.lanes = lanes;
  tiles.warps_of_row = lanes > packs_of_lane * warp_lanes ? most_warps_of_row : 1;
  const int warps = few_threads / lanes * lanes / warp_lanes;
  tiles.rows = static_cast<int>(ceil_divide(warps, tiles.warps_of_row));
  const auto bytes =
      static_cast<std::int64_t>(2 * sizeof(X) + sizeof(T)) * tiles.rows * of.sizes.channels;
  tiles.stages = 3 * bytes <= most_tile_bytes ? 3 : 2;
  if (tiles.stages * bytes > most_tile_bytes) return std::nullopt;
  tiles.shape.threads = static_cast<unsigned>(tiles.rows * tiles.warps_of_row * warp_lanes);
  tiles.shape.shared_bytes = static_cast<std::size_t>(tiles.stages * bytes);
  tiles.shape.blocks_x = static_cast<unsigned>(std::clamp<std::int64_t>(
      of.sizes.rows / least_rows, 1, multiprocessors * norm_gradient_blocks));
  return tiles;
}

/// The rows of a tile in shared memory.
template <class X, class T>
struct TileRows {
  X *x, *addend;
  T* y_grad;
  int channels;

  __device__ TileRows(std::byte* memory, const NormTiles& tiles, std::int64_t all_channels)
      : x(reinterpret_cast<X*>(memory)),
        addend(x + tiles.rows * static_cast<int>(all_channels)),
        y_grad(reinterpret_cast<T*>(addend + tiles.rows * static_cast<int>(all_channels))),
        channels(static_cast<int>(all_channels)) {}
  __device__ static int bytes(const NormTiles& tiles, std::int64_t all_channels) {
    return static_cast<int>(2 * sizeof(X) + sizeof(T)) * tiles.rows *
           static_cast<int>(all_channels);
  }
  /// What sums over a row read.
  __device__ RowPack<X, T> terms(int row, int pack) const {
    const int at = row * channels + pack * pack_size<T>;
    return {
        load_packs<T>(x + at, WholePack{true}), {}, load_packs<T>(y_grad + at, WholePack{true})};
  }
  __device__ RowPack<X, T> all(int row, int pack, bool has_addend) const {
    RowPack<X, T> loaded = terms(row, pack);
    if (has_addend)
      loaded.addend = load_packs<T>(addend + row * channels + pack * pack_size<T>, WholePack{true});
    return loaded;
  }
};

/// `aligned`: all begins at multiples of 16 bytes. Else elements are copied one by one.
/// Block b has every gridDim-th tile from tile b on. Registers: see the bounds of the launch, which
/// leave 128 for each thread.
template <int stages, bool aligned, class X, class T>
__global__ void __launch_bounds__(few_threads, norm_gradient_blocks)
    gradients_of_tiles(NormGradientsOf<X, T> of, NormTiles tiles) {
  begin_kernel();
  constexpr int size = pack_size<T>;
  struct RowSums {
    float sum, sum_normal;
  };
  __shared__ std::uint64_t arrivals[stages];
  // By turns of two: a warp may sum the next tile while another still reads.
  __shared__ RowSums of_rows[2][most_tile_rows][most_warps_of_row];
  __shared__ Statistics of_norms[2][most_tile_rows];
  const auto channels = static_cast<int>(of.sizes.channels);
  const int packs = channels / size;
  const float scale = 1 / static_cast<float>(channels);
  const bool has_addend = of.residual.addend_RC != nullptr;
  // What the thread is in the first half of the work, and in the second.
  const int row_of_warp = warp_index() / tiles.warps_of_row,
            part = warp_index() % tiles.warps_of_row;
  const int share = static_cast<int>(threadIdx.x) / tiles.lanes,
            own = static_cast<int>(threadIdx.x) % tiles.lanes,
            shares = static_cast<int>(blockDim.x) / tiles.lanes;
  const bool owns = share < shares && own < packs;
  const auto part_where = [](bool there) {
    if constexpr (aligned)
      return WholePack{there};
    else
      return PackPart{there ? size : 0, false};
  };
  PackOf<T, T> gain_of_lane[packs_of_lane], gain;
  const auto pack_of_lane = [&](int i) {
    return (i * tiles.warps_of_row + part) * warp_lanes + lane_index();
  };
#pragma unroll
  for (int i = 0; i < packs_of_lane; ++i)
    gain_of_lane[i] =
        load_packs<T>(of.norm.gain_C + pack_of_lane(i) * size, part_where(pack_of_lane(i) < packs));
  gain = load_packs<T>(of.norm.gain_C + own * size, part_where(owns));

  const auto first_row = [&](int k) {
    return (static_cast<std::int64_t>(k) * gridDim.x + blockIdx.x) * tiles.rows;
  };
  const auto rows_of = [&](int k) {
    return static_cast<int>(min(of.sizes.rows - first_row(k), std::int64_t{tiles.rows}));
  };
  const auto rows_in = [&](int k) {
    return TileRows<X, T>(
        dynamic_shared() + k % stages * TileRows<X, T>::bytes(tiles, of.sizes.channels), tiles,
        of.sizes.channels);
  };
  TileCopies<stages> copies(arrivals);
  const auto begin = [&](int k) {
    if (first_row(k) < of.sizes.rows) {
      const std::int64_t from = first_row(k) * channels;
      const auto elements = static_cast<unsigned>(rows_of(k) * channels);
      const TileRows<X, T> to = rows_in(k);
      const unsigned x_bytes = elements * sizeof(X), y_bytes = elements * sizeof(T);
      if constexpr (aligned) {
        copies.begin(k, x_bytes + y_bytes + (has_addend ? x_bytes : 0));
        copies.add(k, to.x, of.norm.x_RC + from, x_bytes);
        copies.add(k, to.y_grad, of.norm.y_grad_RC + from, y_bytes);
        if (has_addend) copies.add(k, to.addend, of.residual.addend_RC + from, x_bytes);
      } else {
        for (unsigned i = threadIdx.x; i < elements; i += blockDim.x) {
          to.x[i] = of.norm.x_RC[from + i];
          to.y_grad[i] = of.norm.y_grad_RC[from + i];
          if (has_addend) to.addend[i] = of.residual.addend_RC[from + i];
        }
      }
    }
    if constexpr (aligned) copies.end();
  };
  Statistics next{};
  const auto load_statistics = [&](int k) {
    const std::int64_t row = first_row(k) + row_of_warp;
    if (row < of.sizes.rows) next = of.norm.statistics(row);
  };

  if (threadIdx.x < 2 * most_tile_rows)  // where one warp sums over a row, nothing is of a second
    of_rows[threadIdx.x / most_tile_rows][threadIdx.x % most_tile_rows][1] = {0, 0};
  if constexpr (aligned) copies.prepare();
  for (int k = 0; k < stages; ++k) begin(k);
  load_statistics(0);
  DroppedElements none({}, 0, 0, 0);
  float sums[sums_of_norm][size] = {};
  for (int k = 0; first_row(k) < of.sizes.rows; ++k) {
    const TileRows<X, T> tile = rows_in(k);
    const int rows = rows_of(k), turn = k % 2;
    if constexpr (aligned)
      copies.wait(k);
    else
      __syncthreads();
    if (row_of_warp < rows) {
      RowSums mine{0, 0};
#pragma unroll
      for (int i = 0; i < packs_of_lane; ++i)
        if (pack_of_lane(i) < packs)
          tile.terms(row_of_warp, pack_of_lane(i))
              .add_to(mine.sum, mine.sum_normal, next, gain_of_lane[i]);
      mine = {warp_sum(mine.sum), warp_sum(mine.sum_normal)};
      if (lane_index() == 0) {
        of_rows[turn][row_of_warp][part] = mine;
        if (part == 0) of_norms[turn][row_of_warp] = next;
      }
    }
    load_statistics(k + 1);
    __syncthreads();
    if (k > 0) begin(k - 1 + stages);
    if (!owns) continue;
#pragma unroll 2
    for (int row = share; row < rows; row += shares) {
      const RowPack<X, T> pack = tile.all(row, own, has_addend);
      const Statistics statistics = of_norms[turn][row];
      const RowSums one = of_rows[turn][row][0], two = of_rows[turn][row][1];
      float branch_grad[size];
      put_gradient<false>(of.residual, none, (first_row(k) + row) * channels + own * size,
                          part_where(true), pack, gain, statistics,
                          of.norm.average(one.sum + two.sum, scale),
                          (one.sum_normal + two.sum_normal) * scale, branch_grad);
      add_to_sums(sums, pack, statistics, branch_grad);
    }
  }

  float* const of_shares = reinterpret_cast<float*>(dynamic_shared());
#pragma unroll
  for (int i = 0; i < sums_of_norm; ++i) {
    __syncthreads();
    if (owns) store_packs<T>(sums[i], WholePack{true}, of_shares + share * channels + own * size);
    __syncthreads();
    for (int channel = static_cast<int>(threadIdx.x); channel < channels;
         channel += static_cast<int>(blockDim.x)) {
      float total = 0;
      for (int j = 0; j < shares; ++j) total += of_shares[j * channels + channel];
      of.parts[(i * of.stretches + blockIdx.x) * channels + channel] = total;
    }
  }
}

/// To be called once, before the first launch.
template <class X, class T>
void allow_tiles() {
  allow_shared_memory(gradients_of_tiles<3, true, X, T>, most_tile_bytes);
  allow_shared_memory(gradients_of_tiles<2, true, X, T>, most_tile_bytes);
  allow_shared_memory(gradients_of_tiles<2, false, X, T>, most_tile_bytes);
}

/// Gives into how many stretches rows are summed: no more than launch_of_blocks says.
template <class X, class T>
std::int64_t enqueue_tiles(NormGradientsOf<X, T> of, const NormTiles& tiles, Stream stream) {
  of.stretches = tiles.shape.blocks_x;
  auto* kernel = gradients_of_tiles<2, false, X, T>;
  if (of.sizes.whole_packs)
    kernel =
        tiles.stages == 3 ? gradients_of_tiles<3, true, X, T> : gradients_of_tiles<2, true, X, T>;
  launch(kernel, tiles.shape, stream, of, tiles);
  return of.stretches;
}

}  // namespace fourfold::kernels::cuda
