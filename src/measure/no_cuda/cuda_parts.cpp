#include "measure/cuda_parts.h"

namespace fourfold::measure {

machine::CudaFacts cuda_facts() {
  return {};
}

std::vector<machine::GpuLink> cuda_links(const std::string&,
                                         const std::vector<std::string>& others) {
  return std::vector<machine::GpuLink>(others.size());
}

std::vector<machine::CudaLibrary> cuda_libraries() {
  return {};
}

std::optional<std::int64_t> cuda_free_memory_bytes(int) {
  return std::nullopt;
}

}  // namespace fourfold::measure
