// How many blocks and threads a kernel is launched with: plain arithmetic, tested on the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fourfold::kernels::cuda {

/// Blocks lie along x alone, of which a grid has 2^31 - 1; of y and z it has 65,535 (CUDA C++
/// Programming Guide, "Compute Capabilities"), fewer than a batch may have heads.
struct LaunchShape {
  unsigned blocks_x = 1;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;

  bool is_empty() const { return blocks_x == 0; }
};

inline constexpr int warp_lanes = 32;

/// The most that a kernel's parameters take, since CUDA 12.1: CUDA C++ Programming Guide, "Kernel
/// Arguments".
inline constexpr std::size_t most_parameter_bytes = 32764;

constexpr std::int64_t ceil_divide(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

/// Enough blocks for `items` items of work, one for each thread (or whatever `per_block` says), but
/// no more than keep a large GPU busy: kernels step through the rest.
constexpr LaunchShape stepping_launch(std::int64_t items, unsigned threads,
                                      std::int64_t per_block) {
  constexpr std::int64_t most_blocks = 132 * 32;  // an H100's multiprocessors times resident blocks
  LaunchShape shape;
  shape.threads = threads;
  shape.blocks_x = static_cast<unsigned>(std::min(ceil_divide(items, per_block), most_blocks));
  return shape;
}

}  // namespace fourfold::kernels::cuda
