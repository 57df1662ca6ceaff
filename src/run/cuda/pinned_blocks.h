// The step block and the result block of either parity in pinned memory, where programs get them
// from and bring them to.
#pragma once

#include <cstddef>

#include "op/blocks.h"
#include "run/cuda/device.h"

namespace fourfold::run::cuda {

class PinnedBlocks {
 public:
  /// `vote` is the kernel of op::Vote.
  PinnedBlocks(Device& device, kernels::cuda::Enqueue vote);

  void write(std::size_t parity, const op::StepBlock& step);
  /// Once the program that brought it has finished.
  op::ResultBlock result(std::size_t parity) const;

  RowCopy step_to(std::byte* device_block, std::size_t parity) const;
  RowCopy result_from(const std::byte* device_block, std::size_t parity) const;

  /// Enqueues what the host would do if it knew the result of parity `first` already: it would not
  /// begin the step of parity `second` after one that was not applied. The device votes against
  /// that step instead.
  void vote_behind(std::size_t first, std::size_t second, Stream stream) const;

 private:
  std::byte* step_block(std::size_t parity) const;
  std::byte* result_block(std::size_t parity) const;

  PinnedMemory memory_;
  kernels::cuda::Enqueue vote_;
};

}  // namespace fourfold::run::cuda
