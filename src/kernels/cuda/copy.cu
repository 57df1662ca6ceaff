// Bytes moved within device memory; copy.h says what it computess. A copy is a number of stretches
// that are contiguous on both sides: what is divided by is divided once for each stretch.
#include "kernels/cuda/copy.h"

#include <numeric>
#include <utility>

#include "base/error.h"
#include "kernels/cuda/device.cuh"

namespace fourfold::kernels::cuda {
namespace {

template <int bytes>
struct alignas(bytes) Unit {
  std::byte content[bytes];
};

/// Where a stretch lies, in bytes; its first `copied` units come from the source, those up to
/// `written` are zero.
struct Stretch {
  std::int64_t from, to, copied, written;
};

/// Stretches of a copy between rows: as long as they are contiguous on both sides.
struct RowStretches {
  std::int64_t bytes;
  std::int64_t from_each, from_pitch, to_each, to_pitch;  // stretches in a row
  __device__ Stretch at(std::int64_t index, std::int64_t units) const {
    return {index / from_each * from_pitch + index % from_each * bytes,
            index / to_each * to_pitch + index % to_each * bytes, units, units};
  }
};

/// Stretches of a blocked tensor, in its order: the part of a row that lies in a block.
struct BlockStretches {
  BlockOrder order;
  std::int64_t unit_bytes;
  bool packs;
  __device__ Stretch at(std::int64_t index, std::int64_t units) const {
    const std::int64_t share = index / order.outer, row = index % order.outer;
    const std::int64_t first = min(share * order.share_length, order.length);
    const std::int64_t count = min(order.share_length, order.length - first);
    const std::int64_t plain = (row * order.length + first) * order.inner_bytes;
    const std::int64_t blocked = index * order.share_length * order.inner_bytes;
    const std::int64_t here = count * order.inner_bytes / unit_bytes;
    return packs ? Stretch{plain, blocked, here, units} : Stretch{blocked, plain, here, here};
  }
};

template <int bytes, class Stretches>
__global__ void __launch_bounds__(CopyShape::threads)
    copy_stretches(Stretches stretches, CopyShape shape, const std::byte* from, std::byte* to) {
  begin_kernel();
  const std::int64_t lane = threadIdx.x % shape.lanes, teams = blockDim.x / shape.lanes;
  std::int64_t item = blockIdx.x * teams + threadIdx.x / shape.lanes;
  for (; item < shape.items(); item += gridDim.x * teams) {
    const std::int64_t index = item / shape.pieces, piece = item % shape.pieces;
    const Stretch stretch = stretches.at(index, shape.units);
    const auto* source = reinterpret_cast<const Unit<bytes>*>(from + stretch.from);
    auto* target = reinterpret_cast<Unit<bytes>*>(to + stretch.to);
#pragma unroll
    for (std::int64_t i = 0; i < CopyShape::units_of_lane; ++i) {
      const std::int64_t unit = piece * shape.piece_units() + i * shape.lanes + lane;
      if (unit < stretch.copied)
        target[unit] = source[unit];
      else if (unit < stretch.written)
        target[unit] = {};
    }
  }
}

std::int64_t address(const std::byte* pointer) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer));
}

template <class Stretches>
void enqueue_copy(std::int64_t unit_bytes, const Stretches& stretches, std::int64_t count,
                  std::int64_t stretch_bytes, const std::byte* from, std::byte* to, Stream stream) {
  const CopyShape shape = CopyShape::of(count, stretch_bytes / unit_bytes);
  const auto with = [&](auto kernel) {
    launch(kernel, shape.launch(), stream, stretches, shape, from, to);
  };
  if (unit_bytes == 16) return with(copy_stretches<16, Stretches>);
  if (unit_bytes == 4) return with(copy_stretches<4, Stretches>);
  if (unit_bytes == 2) return with(copy_stretches<2, Stretches>);
  with(copy_stretches<1, Stretches>);
}

/// Rows that lie one after the other are one row.
DeviceRows joined(DeviceRows side) {
  if (side.rows > 1 && side.pitch_bytes == side.row_bytes)
    side.row_bytes *= std::exchange(side.rows, 1);
  if (side.rows == 1) side.pitch_bytes = side.row_bytes;
  return side;
}

}  // namespace

void copy_rows(const DeviceRows& from_rows, const DeviceRows& to_rows, Stream stream) {
  const DeviceRows from = joined(from_rows), to = joined(to_rows);
  const std::int64_t total = from.rows * from.row_bytes;
  require(total == to.rows * to.row_bytes, "both sides of a copy have as many bytes");
  if (total == 0 || (from.start == to.start && from.row_bytes == to.row_bytes &&
                     from.pitch_bytes == to.pitch_bytes))
    return;
  const std::int64_t bytes = std::gcd(from.row_bytes, to.row_bytes);
  const RowStretches stretches{bytes, from.row_bytes / bytes, from.pitch_bytes,
                               to.row_bytes / bytes, to.pitch_bytes};
  enqueue_copy(access_bytes({bytes, address(from.start), address(to.start), from.pitch_bytes,
                             to.pitch_bytes}),
               stretches, total / bytes, bytes, from.start, to.start, stream);
}

namespace {

void reorder(const BlockOrder& order, bool packs, const std::byte* from, std::byte* to,
             Stream stream) {
  require(order.shares * order.share_length >= order.length, "parts hold all of the dim they cut");
  const std::int64_t unit_bytes = access_bytes({order.inner_bytes, address(from), address(to)});
  enqueue_copy(unit_bytes, BlockStretches{order, unit_bytes, packs}, order.shares * order.outer,
               order.share_length * order.inner_bytes, from, to, stream);
}

}  // namespace

void pack(const BlockOrder& order, const std::byte* plain, std::byte* blocked, Stream stream) {
  reorder(order, true, plain, blocked, stream);
}

void unpack(const BlockOrder& order, const std::byte* blocked, std::byte* plain, Stream stream) {
  reorder(order, false, blocked, plain, stream);
}

}  // namespace fourfold::kernels::cuda
