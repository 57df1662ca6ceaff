#include "run/cuda/pinned_blocks.h"

#include <array>
#include <cstring>
#include <utility>

namespace fourfold::run::cuda {
namespace {

/// Room for each block, apart from its neighbours' cache lines.
constexpr std::size_t block_room = 128;
static_assert(sizeof(op::StepBlock) <= block_room && sizeof(op::ResultBlock) <= block_room);

}  // namespace

PinnedBlocks::PinnedBlocks(Device& device, kernels::cuda::Enqueue vote)
    : memory_(make_pinned(device, 4 * block_room)), vote_(std::move(vote)) {}

std::byte* PinnedBlocks::step_block(std::size_t parity) const {
  return memory_.get() + parity * block_room;
}
std::byte* PinnedBlocks::result_block(std::size_t parity) const {
  return memory_.get() + (2 + parity) * block_room;
}

void PinnedBlocks::write(std::size_t parity, const op::StepBlock& step) {
  std::memcpy(step_block(parity), &step, sizeof step);
}

op::ResultBlock PinnedBlocks::result(std::size_t parity) const {
  op::ResultBlock result;
  std::memcpy(&result, result_block(parity), sizeof result);
  return result;
}

RowCopy PinnedBlocks::step_to(std::byte* device_block, std::size_t parity) const {
  return dense(device_block, step_block(parity), sizeof(op::StepBlock));
}

RowCopy PinnedBlocks::result_from(const std::byte* device_block, std::size_t parity) const {
  return dense(result_block(parity), device_block, sizeof(op::ResultBlock));
}

void PinnedBlocks::vote_behind(std::size_t first, std::size_t second, Stream stream) const {
  const auto field = [](std::byte* block, std::string_view name) {
    const op::BlockField of = *op::find_block_field(name);
    return kernels::Tensor{block + of.offset_bytes, {}, of.dtype};
  };
  std::byte *const result = result_block(first), *const step = step_block(second);
  // A step without tokens is unfit: so is, here, one after a step that was not applied.
  const std::array<kernels::Tensor, 7> operands = {field(step, "step.vote"),
                                                   field(result, "result.squared_norm"),
                                                   field(result, "result.loss_sum"),
                                                   field(result, "result.applied"),
                                                   field(result, "result.non_finite"),
                                                   field(step, "step.lr"),
                                                   field(step, "step.vote")};
  vote_(operands, {}, stream);
}

}  // namespace fourfold::run::cuda
