#include "run/reorder.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "op/sharding.h"

namespace fourfold::run {
namespace {

/// Below this a second thread costs more than it saves: waking a team takes some 5 us, in which one
/// core copies about 50 KiB.
constexpr std::int64_t worth_threads_bytes = std::int64_t{256} << 10;

/// Calls `move(plain offset, blocked offset, bytes, padding bytes after them)` for every run.
template <class Move>
void for_each_run(const Reorder& order, int threads, Move&& move) {
  const std::int64_t runs = order.shares * order.outer;
  const std::int64_t room = order.share_length * order.inner_bytes;
#pragma omp parallel for schedule(static) \
    num_threads(threads) if (threads > 1 && order.blocked_bytes() >= worth_threads_bytes)
  for (std::int64_t run = 0; run < runs; ++run) {
    const std::int64_t share = run / order.outer, row = run % order.outer;
    const std::int64_t first = std::min(share * order.share_length, order.length);
    const std::int64_t count =
        std::min(order.share_length, order.length - first);  // 0: all padding
    const std::int64_t bytes = count * order.inner_bytes;
    move((row * order.length + first) * order.inner_bytes, run * room, bytes, room - bytes);
  }
}

}  // namespace

Reorder reorder_of(const program::Program& program, const program::Buffer& blocked) {
  require(blocked.blocked.has_value(), format("buffer {} is blocked", blocked.name));
  const Mesh& mesh = program.meshes[blocked.sharding.mesh.index()];
  const Shape shape = op::local_shape(blocked.global, blocked.sharding, mesh);
  const auto [dim, axis, share] = *blocked.blocked;
  require(dim < shape.rank() && axis.index() < mesh.axes.size(),
          format("buffer {} is blocked in a dim it has, along an axis of its mesh", blocked.name));
  Reorder order;
  order.shares = mesh.axes[axis.index()].size;
  order.length = shape[dim];
  order.share_length = share;
  require(order.shares * share >= order.length,
          format("the parts of buffer {} hold all of its dim", blocked.name));
  order.inner_bytes = size_bytes(blocked.dtype);
  for (std::size_t i = 0; i < shape.rank(); ++i)
    if (i != dim) (i < dim ? order.outer : order.inner_bytes) *= shape[i];
  return order;
}

void pack(const Reorder& order, const std::byte* plain, std::byte* blocked, int threads) {
  for_each_run(order, threads, [&](auto from, auto to, auto bytes, auto padding) {
    if (bytes > 0) std::memcpy(blocked + to, plain + from, static_cast<std::size_t>(bytes));
    if (padding > 0) std::memset(blocked + to + bytes, 0, static_cast<std::size_t>(padding));
  });
}

void unpack(const Reorder& order, const std::byte* blocked, std::byte* plain, int threads) {
  for_each_run(order, threads, [&](auto to, auto from, auto bytes, auto) {
    if (bytes > 0) std::memcpy(plain + to, blocked + from, static_cast<std::size_t>(bytes));
  });
}

}  // namespace fourfold::run
