// The facts about the CUDA kernels that compile/ needs: which implementation for which op, and its
// workspace.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "machine/target.h"

namespace fourfold::kernels::cuda {

/// How products of f32 are computed: as they are, or rounded to tf32 for the tensor cores.
enum class FloatProducts : std::uint8_t { full, tf32 };

/// What computes attention and convolutions where it can: own kernels, or cuDNN where this build
/// has it and the device that is current has a kernel for the shape. Asking cuDNN takes a device:
/// where there is none, programs have own kernels. `cudnn_fast` also has the gradient of attention
/// and the convolutions whose bits differ from run to run, "cudnn_fast", which no line of a
/// measured table gives to the others.
enum class AttentionBy : std::uint8_t { own, cudnn, cudnn_fast };

/// By `measured` where one of its lines fits, with the scratch that it says, else products by
/// cuBLASLt, also with what stands after them; attention and convolutions as chosen, those of 1 x 1
/// that are products by cuBLASLt where not by cuDNN; all else by own kernels.
machine::Target target(FloatProducts products = FloatProducts::full,
                       AttentionBy attention = AttentionBy::own,
                       std::vector<machine::Choice> measured = {});

/// What computes a problem with equal rounding of f32, the one that target() names first: what
/// `bench kernels` has to choose among. Asks the libraries, and so the device.
std::vector<std::string> implementations(const Problem& problem, FloatProducts products,
                                         AttentionBy attention);

/// Scratch that just this implementation wants for just this problem, which may be less than what
/// target() plans with. Asks the libraries, and so the device.
std::int64_t needed_workspace_bytes(const std::string& implementation, const Problem& problem);

/// All names of what computes a row in a type, as a measured table may have them: rows with a
/// product, convolutions, attention and its gradient; none for others.
std::vector<std::string> known_implementations(const std::string& row, DType dtype);

/// The own kernels for every op.
machine::Target own_target();

}  // namespace fourfold::kernels::cuda
