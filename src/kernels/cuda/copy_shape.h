// How a copy is cut into stretches and who moves which: plain arithmetic, tested on the host.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>

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

}  // namespace fourfold::kernels::cuda
