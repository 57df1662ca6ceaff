#include "run/cuda/move.h"

#include <utility>
#include <variant>
#include <vector>

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
  return {order.shares, order.outer, order.length, order.share_length, order.inner_bytes};
}

/// Closed over the kinds of prepared instructions: a new one does not compile until it stands here.
struct MoveOf {
  std::size_t parity = 0;

  Move operator()(const PreparedCopy& copy) const {
    std::vector<std::pair<DeviceRows, DeviceRows>> sides;
    for (const PreparedCopy::Tensor& tensor : copy.tensors)
      sides.emplace_back(device_rows(tensor.from[parity]), device_rows(tensor.to[parity]));
    return [sides = std::move(sides)](Stream stream) {
      for (const auto& [from, to] : sides) kernels::cuda::copy_rows(from, to, stream);
    };
  }
  Move operator()(const PreparedReorder& reorder) const {
    const BlockOrder order = block_order(reorder.order);
    std::byte *const plain = reorder.plain[parity], *const blocked = reorder.blocked[parity];
    if (reorder.packs)
      return [=](Stream stream) { kernels::cuda::pack(order, plain, blocked, stream); };
    return [=](Stream stream) { kernels::cuda::unpack(order, blocked, plain, stream); };
  }

  /// Between rows and the place where they stand one after another; nothing for one row.
  Move operator()(const PreparedMessage& message) const {
    if (message.dense_bytes() == 0) return {};
    const auto bytes = static_cast<std::int64_t>(message.dense.size());
    const DeviceRows rows = device_rows(message.rows[parity]),
                     dense{message.dense.data(), 1, bytes, bytes};
    const DeviceRows from = message.sends ? rows : dense, to = message.sends ? dense : rows;
    return [=](Stream stream) { kernels::cuda::copy_rows(from, to, stream); };
  }

  Move operator()(const PreparedNothing&) const { return {}; }
  Move operator()(const PreparedCompute&) const { return {}; }
  Move operator()(const PreparedFeed&) const { return {}; }
  Move operator()(const PreparedRecord&) const { return {}; }
  Move operator()(const PreparedWait&) const { return {}; }

  Move operator()(const PreparedCollective&) const { return {}; }
};

}  // namespace

Move move_of(const PreparedInstruction& instruction, std::size_t parity) {
  return std::visit(MoveOf{parity}, instruction.what);
}

}  // namespace fourfold::run::cuda
