// Many tensors in one launch: a list among a kernel's parameters, and which blocks work on which
// tensor of it.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_shape.h"

namespace fourfold::kernels::cuda {

/// What the parameters of a kernel hold, 32764 bytes since CUDA 12.1, with room for others.
inline constexpr std::size_t list_room_bytes = 31000;

/// `Entry` is plain data with a member `first_block`: its elements belong to blocks [first_block,
/// that of the next entry).
template <class Entry>
struct TensorList {
  static constexpr int most = static_cast<int>(list_room_bytes / sizeof(Entry));

  int count = 0;
  unsigned blocks = 0;
  Entry entries[most];

  bool is_full() const { return count == most; }
  /// With so many blocks of its own, above 0.
  void add(Entry entry, std::int64_t own_blocks) {
    entry.first_block = blocks;
    entries[count++] = entry;
    blocks += static_cast<unsigned>(own_blocks);
  }
  LaunchShape launch_shape(unsigned threads) const {
    LaunchShape shape;
    shape.blocks_x = blocks;
    shape.threads = threads;
    return shape;
  }
  void clear() { count = 0, blocks = 0; }
};

/// The entry that a block works on.
template <class Entry>
__device__ const Entry& entry_of_block(const TensorList<Entry>& list, unsigned block) {
  int first = 0, last = list.count;  // first_block of `first` <= block < that of `last`
  while (last - first > 1) {
    const int middle = (first + last) / 2;
    (list.entries[middle].first_block <= block ? first : last) = middle;
  }
  return list.entries[first];
}

}  // namespace fourfold::kernels::cuda
