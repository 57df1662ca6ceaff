// The facts about the CUDA kernels that compile/ needs: which implementation for which op, and its
// workspace.
#pragma once

#include "machine/target.h"

namespace fourfold::kernels::cuda {

/// How products of f32 are computed: as they are, or rounded to tf32 for the tensor cores.
enum class FloatProducts : std::uint8_t { full, tf32 };

/// Products by cuBLASLt, all else by own kernels.
machine::Target target(FloatProducts products = FloatProducts::full);

/// The own kernels for every op.
machine::Target own_target();

}  // namespace fourfold::kernels::cuda
