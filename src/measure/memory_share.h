// The memory that a GPU or this host has left for the regions of a rank.
#pragma once

#include <cstdint>

#include "measure/gpu_place.h"
#include "program/program.h"

namespace fourfold::measure {

/// What libraries take of a GPU's memory after the regions of a run: code is loaded when a kernel
/// is first used, in the first step, and cuDNN and cuBLASLt hold memory of their own. A bound until
/// a GPU has shown less: libcublasLt 13.1 and the libraries of cuDNN 9.19 are 0.96 GiB together,
/// with code for every GPU.
inline constexpr std::int64_t late_library_bytes = std::int64_t{3} << 29;

/// A rank makes so many communicators of NCCL beside the one of all ranks, where tensors pass by
/// NCCL.
struct Communicators {
  std::int64_t groups = 0, channels = 0;
};
Communicators communicators_of(const program::Bundle& bundle);
/// A bound of what NCCL takes of the GPU's memory for them; 0 for none.
std::int64_t nccl_bytes(const Communicators& communicators);

/// Gives the bytes that are left for both regions of each of so many ranks: on the GPU, or on this
/// host where `gpu` is null. Where tensors pass by NCCL, its `communicators` have their part first.
/// 0 where the device does not say what it has.
std::int64_t memory_share(const GpuPlace* gpu, std::int64_t ranks_here, std::int64_t beside_bytes,
                          const Communicators& communicators = {});

}  // namespace fourfold::measure
