// Bytes moved within device memory: rows between two pitches, and a tensor between plain and
// blocked storage (program::Blocked). Not copies from or to the host. Compiles without CUDA.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch_shape.h"

namespace fourfold::kernels::cuda {

/// The widest access, 16, 4, 2 or 1 bytes, at whose multiples all these numbers lie: addresses,
/// pitches and lengths.
constexpr std::int64_t access_bytes(std::initializer_list<std::int64_t> multiples) {
  for (const std::int64_t bytes : {16, 4, 2})
    if (std::all_of(multiples.begin(), multiples.end(),
                    [bytes](std::int64_t multiple) { return multiple % bytes == 0; }))
      return bytes;
  return 1;
}

/// `stretches` of `units` contiguous accesses each. Some lanes of a block share a stretch, or a
/// piece of a long one.
struct CopyShape {
  static constexpr unsigned threads = 256;
  static constexpr std::int64_t units_of_lane = 8;  // at most: in flight at the same time

  std::int64_t stretches = 0, units = 0;
  std::int64_t lanes = 1;   // a power of two
  std::int64_t pieces = 1;  // of a stretch

  static constexpr CopyShape of(std::int64_t stretches, std::int64_t units) {
    CopyShape shape{stretches, units};
    const auto wanted =
        static_cast<std::uint64_t>(std::max<std::int64_t>(ceil_divide(units, 4), 1));
    shape.lanes = std::min<std::int64_t>(static_cast<std::int64_t>(std::bit_ceil(wanted)), threads);
    shape.pieces = std::max<std::int64_t>(ceil_divide(units, shape.piece_units()), 1);
    return shape;
  }
  constexpr std::int64_t piece_units() const { return lanes * units_of_lane; }
  constexpr std::int64_t items() const { return units == 0 ? 0 : stretches * pieces; }
  constexpr LaunchShape launch() const {
    return stepping_launch(items(), threads, static_cast<std::int64_t>(threads) / lanes);
  }
};

/// Rows of device memory on one side of a copy.
struct DeviceRows {
  std::byte* start = nullptr;
  std::int64_t rows = 1, row_bytes = 0, pitch_bytes = 0;
};

/// Copies the bytes in order; the rows of both sides may be cut differently. Enqueues one kernel;
/// nothing where both sides are the same. Requires that both sides have as many bytes and that they
/// do not overlap otherwise. Cost: reads and writes each byte once, up to 16 at a time.
void copy_rows(const DeviceRows& from, const DeviceRows& to, Stream stream);

/// A tensor seen from the dim that is cut into parts: (outer, length, inner) plain, and blocked
/// (shares, outer, share_length, inner). What the shares hold beyond `length` is padding, at the
/// end.
struct BlockOrder {
  std::int64_t shares = 1, outer = 1, length = 1, share_length = 1;
  std::int64_t inner_bytes = 0;
};

/// Blocks from plain; padding becomes zero. Requires that both do not overlap.
void pack(const BlockOrder& order, const std::byte* plain, std::byte* blocked, Stream stream);
/// Plain from blocks; padding is left out.
void unpack(const BlockOrder& order, const std::byte* blocked, std::byte* plain, Stream stream);

}  // namespace fourfold::kernels::cuda
