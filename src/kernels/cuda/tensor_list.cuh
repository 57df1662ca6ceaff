// Several tensors as the argument of one launch: each has some blocks of the grid to itself.
#pragma once

#include "kernels/cuda/device.cuh"

namespace fourfold::kernels::cuda {

/// As many as the parameters of a kernel hold, 32764 bytes since CUDA 12.1, with room to spare.
inline constexpr int tensors_per_launch = 480;

/// Item has `first_block`: blocks [first_block, that of the next item) are its own.
template <class Item>
struct TensorList {
  static_assert(sizeof(Item) * tensors_per_launch <= 32000);
  int count = 0;
  unsigned blocks = 0;  // of all
  Item items[tensors_per_launch];

  bool is_full() const { return count == tensors_per_launch; }
  /// Adds an item of so many blocks behind the others.
  void add(Item item, unsigned item_blocks) {
    item.first_block = blocks;
    items[count++] = item;
    blocks += item_blocks;
  }
  void clear() {
    count = 0;
    blocks = 0;
  }
};

/// The item that a block belongs to.
template <class Item>
__device__ const Item& item_of_block(const TensorList<Item>& list, unsigned block) {
  int first = 0, last = list.count;  // first_block of `first` <= block < that of `last`
  while (last - first > 1) {
    const int middle = (first + last) / 2;
    (list.items[middle].first_block <= block ? first : last) = middle;
  }
  return list.items[first];
}

}  // namespace fourfold::kernels::cuda
