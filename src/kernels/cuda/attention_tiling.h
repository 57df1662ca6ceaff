// How the attention kernels cut their work: a block has rows of its own, 16 or 32 for each warp,
// and goes through the others in tiles. Plain arithmetic, tested on the host: what a block needs
// must fit into an A100's and an H100's shared memory and registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/fragments.h"
#include "kernels/cuda/launch_shape.h"

namespace fourfold::kernels::cuda {

/// The widest heads that the kernels have tiles for.
inline constexpr std::int64_t most_head_width = 512;

/// The tiles for heads padded to `padded_width` elements of `bytes` bytes.
/// A fragment of keys or values that a warp loads serves all its rows: with 16 of them, loads take
/// 2 cycles of shared memory (256 bytes) for each product of 16 x 8 x 16, which an H100 computes
/// in 1.6.
/// The sums of a row of more than 256 elements do not fit into the registers of one warp: `parts`
/// warps share rows, each has as many columns of y, and scores are summed over all of them.
template <int bytes, int padded_width>
struct ForwardTiling {
  static constexpr int width = padded_width;
  static constexpr int parts = width > 256 ? 2 : 1;
  static constexpr int warps = bytes == 4 && width > 128 ? 2 : 4;
  static constexpr unsigned threads = warps * warp_lanes;
  static constexpr int row_tiles = bytes == 2 && width <= 128 ? 2 : 1;
  static constexpr int own_rows = 16 * row_tiles * warps / parts;
  static constexpr int tile_rows = bytes == 2 ? (width <= 64 ? 64 : 32) : (width <= 256 ? 32 : 16);
  static constexpr int row_stride = shared_stride(width, bytes);
  static constexpr int own_elements = own_rows * row_stride;
  static constexpr int tile_elements = tile_rows * row_stride;
  /// Each warp's scores, where several have parts of them.
  static constexpr int score_elements = parts == 1 ? 0 : warps * 16 * row_tiles * tile_rows;
  /// Queries, a tile of keys, a tile of values; scores.
  static constexpr std::size_t shared_bytes =
      static_cast<std::size_t>(own_elements + 2 * tile_elements) * bytes +
      score_elements * sizeof(float);
};

/// Sums for two gradients of a warp's rows need width / 16 registers for each row. Warps that share
/// rows have `parts` of the columns each. Up to 256 elements each of them computes all scores of
/// its rows; beyond, scores are summed over `score_parts` warps.
template <int bytes, int padded_width>
struct GradientTiling {
  static constexpr int width = padded_width;
  static constexpr int warps = bytes == 2 && width > 64 ? 8 : 4;
  static constexpr unsigned threads = warps * warp_lanes;
  static constexpr int parts = width > 256 ? 4 : width > 128 ? 2 : 1;
  static constexpr int score_parts = width > 256 ? parts : 1;
  static constexpr int row_tiles = bytes == 2 && width <= 64 ? 2 : 1;
  static constexpr int own_rows = 16 * row_tiles * warps / parts;
  static constexpr int tile_rows = width > 256 ? 16 : (bytes == 2 ? 64 : 32) / parts;
  /// Columns of scores at a time.
  static constexpr int chunk = tile_rows < 32 ? tile_rows : 32;
  /// Tiles that lie in shared memory at once: the one in use, and the next where there is room.
  static constexpr int buffers = bytes == 4 && width > 256 ? 1 : 2;
  static constexpr int row_stride = shared_stride(width, bytes);
  static constexpr int own_elements = own_rows * row_stride;
  static constexpr int tile_elements = tile_rows * row_stride;
  /// Each warp's scores and products with values, where several have parts of them.
  static constexpr int score_elements = score_parts == 1 ? 0 : 2 * warps * 16 * row_tiles * chunk;
  /// Two own tensors, tiles of two others, two numbers for each row of those; scores.
  static constexpr std::size_t shared_bytes =
      static_cast<std::size_t>(2 * own_elements + 2 * buffers * tile_elements) * bytes +
      (2 * buffers * tile_rows + score_elements) * sizeof(float);
};

}  // namespace fourfold::kernels::cuda
