// How the attention kernels cut their work: a block has rows of its own, 16 or 32 for each warp,
// and goes through the others in tiles. Plain arithmetic, tested on the host: what a block needs
// must fit into an A100's and an H100's shared memory and registers.
#pragma once

#include <cstddef>

#include "kernels/cuda/fragments.h"
#include "kernels/cuda/launch_shape.h"

namespace fourfold::kernels::cuda {

/// The tiles for heads padded to `padded_width` elements of `bytes` bytes.
/// A fragment of keys or values that a warp loads serves all its rows: with 16 of them, loads take
/// 2 cycles of shared memory (256 bytes) for each product of 16 x 8 x 16, which an H100 computes
/// in 1.6.
template <int bytes, int padded_width>
struct ForwardTiling {
  static constexpr int width = padded_width;
  static constexpr int warps = bytes == 4 && width > 128 ? 2 : 4;
  static constexpr unsigned threads = warps * warp_lanes;
  static constexpr int row_tiles = bytes == 2 && width <= 128 ? 2 : 1;
  static constexpr int own_rows = 16 * row_tiles * warps;
  static constexpr int tile_rows = bytes == 2 && width <= 64 ? 64 : 32;
  static constexpr int row_stride = shared_stride(width, bytes);
  static constexpr int own_elements = own_rows * row_stride;
  static constexpr int tile_elements = tile_rows * row_stride;
  /// Queries, a tile of keys, a tile of values.
  static constexpr std::size_t shared_bytes =
      static_cast<std::size_t>(own_elements + 2 * tile_elements) * bytes;
};

/// Sums for two gradients of a warp's rows need width / 16 registers for each row. Warps that share
/// rows have `parts` of the columns each.
template <int bytes, int padded_width>
struct GradientTiling {
  static constexpr int width = padded_width;
  static constexpr int warps = bytes == 2 && width > 64 ? 8 : 4;
  static constexpr unsigned threads = warps * warp_lanes;
  static constexpr int parts = width > 128 ? 2 : 1;
  static constexpr int row_tiles = bytes == 2 && width <= 64 ? 2 : 1;
  static constexpr int own_rows = 16 * row_tiles * warps / parts;
  static constexpr int tile_rows = (bytes == 2 ? 64 : 32) / parts;
  /// Columns of scores at a time.
  static constexpr int chunk = tile_rows < 32 ? tile_rows : 32;
  static constexpr int row_stride = shared_stride(width, bytes);
  static constexpr int own_elements = own_rows * row_stride;
  static constexpr int tile_elements = tile_rows * row_stride;
  /// Two own tensors, two tiles of each of two others, two numbers for each row of those.
  static constexpr std::size_t shared_bytes =
      static_cast<std::size_t>(2 * own_elements + 4 * tile_elements) * bytes +
      4 * tile_rows * sizeof(float);
};

}  // namespace fourfold::kernels::cuda
