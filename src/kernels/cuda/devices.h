// Asks CUDA what GPUs, driver and libraries this machine has. Not the judgement of the answers:
// machine/cuda_facts.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/cuda_facts.h"

namespace fourfold::kernels::cuda {

/// Driver, runtime, devices in CUDA's order, and the judgement. Makes no context on any device, and
/// never throws for what is absent. `libraries` is left empty.
machine::CudaFacts facts();

/// How a GPU lies to others of this host, by their bus ids: what NVML says, which knows GPUs that
/// this process may not use too; without NVML whether CUDA lets one reach the other, where both are
/// visible.
std::vector<machine::GpuLink> links(const std::string& bus_id,
                                    const std::vector<std::string>& others);

/// cuBLASLt, cuDNN and NCCL: as built with, and as they are loaded. cuDNN and NCCL are loaded for
/// it where they were not.
std::vector<machine::CudaLibrary> libraries();

/// What a process may still take of a device's memory. Makes a context there, which takes some
/// hundred MiB of it and a part of a second; none where the device does not answer.
std::optional<std::int64_t> free_memory_bytes(int device);

}  // namespace fourfold::kernels::cuda
