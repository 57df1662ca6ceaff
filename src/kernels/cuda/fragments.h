// Where the lanes of a warp find their parts of small matrices: in registers, and in tiles of
// shared memory. Plain arithmetic, tested on the host.
#pragma once

namespace fourfold::kernels::cuda {

struct FragmentPlace {
  int row, column;
};

/// Rows of a tile in shared memory lie this many elements apart. They hold a multiple of 32 bytes;
/// 16 more put the same 16 bytes of 8 neighbouring rows into different banks.
constexpr int shared_stride(int width, int element_bytes) {
  return width + 16 / element_bytes;
}

/// Row and column of sum i of a lane in a tile of 16 x 8 sums: PTX mma.m16n8k16.
constexpr FragmentPlace place_of_sum(int lane, int i) {
  return {lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2};
}

/// Four 8 x 8 matrices of a 16 x 16 one are loaded at once, the rows of matrix m at the addresses
/// of lanes 8 m ... 8 m + 7. Which element each lane points to, and the order of the matrices:
/// upper left, lower left, upper right, lower right.
constexpr FragmentPlace place_by_columns(int lane) {
  return {lane % 16, lane / 16 * 8};
}
/// Upper left, upper right, lower left, lower right.
constexpr FragmentPlace place_by_rows(int lane) {
  return {lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8};
}

}  // namespace fourfold::kernels::cuda
