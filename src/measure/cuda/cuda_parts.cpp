#include "measure/cuda_parts.h"

#include "kernels/cuda/devices.h"

namespace fourfold::measure {

machine::CudaFacts cuda_facts() {
  return kernels::cuda::facts();
}

std::vector<machine::GpuLink> cuda_links(const std::string& bus_id,
                                         const std::vector<std::string>& others) {
  return kernels::cuda::links(bus_id, others);
}

std::vector<machine::CudaLibrary> cuda_libraries() {
  return kernels::cuda::libraries();
}

std::optional<std::int64_t> cuda_free_memory_bytes(int device) {
  return kernels::cuda::free_memory_bytes(device);
}

}  // namespace fourfold::measure
