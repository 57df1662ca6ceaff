// Reordering of a tensor between plain and blocked storage (program::Blocked).
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/program.h"

namespace fourfold::run {

/// A tensor seen from the dim that is cut into parts: (outer, length, inner) plain, and blocked
/// (shares, outer, share_length, inner). What the shares hold beyond `length` is padding, at the
/// end.
struct Reorder {
  std::int64_t shares = 1, outer = 1, length = 1, share_length = 1;
  std::int64_t inner_bytes = 0;

  std::int64_t plain_bytes() const { return outer * length * inner_bytes; }
  std::int64_t blocked_bytes() const { return shares * outer * share_length * inner_bytes; }
};

/// How a blocked buffer lies in memory.
Reorder reorder_of(const program::Program& program, const program::Buffer& blocked);

/// Blocks from plain; padding becomes zero. At most `threads` threads. Cost: reads plain_bytes,
/// writes blocked_bytes.
void pack(const Reorder& order, const std::byte* plain, std::byte* blocked, int threads);
/// Plain from blocks; padding is left out.
void unpack(const Reorder& order, const std::byte* blocked, std::byte* plain, int threads);

}  // namespace fourfold::run
