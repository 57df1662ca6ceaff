// Bytes moved within device memory: rows between two pitches, and a tensor between plain and
// blocked storage (program::Blocked). Not copies from or to the host. Compiles without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda {

/// Rows of device memory on one side of a copy.
struct DeviceRows {
  std::byte* start = nullptr;
  std::int64_t rows = 1, row_bytes = 0, pitch_bytes = 0;
};

/// Copies the bytes in order; the rows of both sides may be cut differently. Enqueues one kernel;
/// nothing where both sides are the same. Requires that both sides have as many bytes and that they
/// do not overlap otherwise. Cost: reads and writes each byte once, up to 16 at a time.
void copy_rows(const DeviceRows& from, const DeviceRows& to, Stream stream);

/// A tensor seen from the dim that is cut into parts: (outer, length, inner) plain, and blocked
/// (shares, outer, share_length, inner). What the shares hold beyond `length` is padding, at the
/// end.
struct BlockOrder {
  std::int64_t shares = 1, outer = 1, length = 1, share_length = 1;
  std::int64_t inner_bytes = 0;
};

/// Blocks from plain; padding becomes zero. Requires that both do not overlap.
void pack(const BlockOrder& order, const std::byte* plain, std::byte* blocked, Stream stream);
/// Plain from blocks; padding is left out.
void unpack(const BlockOrder& order, const std::byte* blocked, std::byte* plain, Stream stream);

}  // namespace fourfold::kernels::cuda
