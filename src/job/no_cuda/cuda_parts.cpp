#include "job/cuda_parts.h"

namespace fourfold::job {

machine::CudaFacts cuda_facts() {
  return {};
}

std::vector<machine::CudaLibrary> cuda_libraries() {
  return {};
}

std::optional<std::int64_t> cuda_free_memory_bytes(int) {
  return std::nullopt;
}

}  // namespace fourfold::job
