// Instructions that move bytes within device memory: copies, pack and unpack, and the rows of a
// message on their way, as kernels with their addresses. Not feeds, which come from the host, and
// not what passes between ranks.
#pragma once

#include <functional>

#include "kernels/cuda/kernels.h"
#include "run/prepared_program.h"

namespace fourfold::run::cuda {

/// Enqueues it.
using Move = std::function<void(kernels::cuda::Stream)>;

/// The move in a step of that parity; empty for an instruction that moves nothing so.
Move move_of(const PreparedInstruction& instruction, std::size_t parity);

}  // namespace fourfold::run::cuda
