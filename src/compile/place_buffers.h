// Addresses of the transient buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compile/liveness.h"
#include "program/program.h"

namespace fourfold::compile {

/// Gives every transient buffer its offset and the program the size of its transient region. An
/// output takes over the memory of a read that dies at the same instruction where the op allows it
/// (op::Operand::may_alias); otherwise buffers share memory when their lives do not meet. Greedy by
/// size, each at the lowest free offset (Pisarchyk, Lee 2020, arXiv:2001.03288, "greedy by size for
/// offset calculation"). Buffers that no instruction touches are removed. Lives reach as far as
/// `reach` says. Cost: n log n, and what `Occupancy` looks at for each buffer.
program::Program place_buffers(program::Program program, Reach reach = {});

/// The instruction at which most transient bytes are alive, the first of equals.
struct LivePeak {
  std::size_t instruction = 0;
  std::int64_t bytes = 0;                  // padding to 64 bytes included
  std::vector<program::BufferId> buffers;  // alive there; of those that share an address, one
};
LivePeak live_peak(const program::Program& program);

/// The least that any placement could need: the largest sum of live bytes at one instruction.
std::int64_t live_bytes_bound(const program::Program& program);

}  // namespace fourfold::compile
