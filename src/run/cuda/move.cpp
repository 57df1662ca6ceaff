#include "run/cuda/move.h"

#include <variant>

#include "kernels/cuda/copy.h"

namespace fourfold::run::cuda {
namespace {

using kernels::cuda::BlockOrder;
using kernels::cuda::DeviceRows;
using kernels::cuda::Stream;

DeviceRows device_rows(const Rows& rows) {
  return {rows.start, rows.rows, rows.row_bytes, rows.pitch_bytes};
}

BlockOrder block_order(const Reorder& order) {
  return {order.parts, order.outer, order.length, order.part_length, order.inner_bytes};
}

}  // namespace

Move move_of(const PreparedInstruction& instruction, std::size_t parity) {
  if (const auto* copy = std::get_if<PreparedCopy>(&instruction.what))
    return [from = device_rows(copy->from[parity]), to = device_rows(copy->to[parity])](
               Stream stream) { kernels::cuda::copy_rows(from, to, stream); };
  const auto* reorder = std::get_if<PreparedReorder>(&instruction.what);
  if (reorder == nullptr) return {};
  const BlockOrder order = block_order(reorder->order);
  std::byte *const plain = reorder->plain[parity], *const blocked = reorder->blocked[parity];
  if (reorder->packs)
    return [=](Stream stream) { kernels::cuda::pack(order, plain, blocked, stream); };
  return [=](Stream stream) { kernels::cuda::unpack(order, blocked, plain, stream); };
}

}  // namespace fourfold::run::cuda
