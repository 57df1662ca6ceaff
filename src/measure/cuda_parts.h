// What is asked of CUDA beside runs. Two folders have these functions, cuda/ and no_cuda/, and
// CMake takes one: no other file of this room knows which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/cuda_facts.h"

namespace fourfold::measure {

/// Driver, devices, and whether this build can work on them; no context is made on any device, and
/// nothing is thrown for what is absent. Without CUDA in the build the state is `not_built`.
machine::CudaFacts cuda_facts();

/// How a GPU lies to others of this host; all are named as CudaDevice::bus_id does. The driver
/// knows also those that this process may not use. `unknown`, and out of reach, where nobody says.
std::vector<machine::GpuLink> cuda_links(const std::string& bus_id,
                                         const std::vector<std::string>& others);

/// Versions of the libraries that go with CUDA; none without CUDA in the build.
std::vector<machine::CudaLibrary> cuda_libraries();

/// What a process may still take of a device's memory; makes a context there. None where no device
/// of that number answers.
std::optional<std::int64_t> cuda_free_memory_bytes(int device);

}  // namespace fourfold::measure
