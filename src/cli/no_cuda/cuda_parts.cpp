#include "cli/cuda_parts.h"
#include "base/error.h"

namespace fourfold::cli {

machine::CudaFacts cuda_facts() {
  return {};
}

std::vector<machine::CudaLibrary> cuda_libraries() {
  return {};
}

std::optional<std::int64_t> cuda_free_memory_bytes(int) {
  return std::nullopt;
}

void bench_cuda(const BenchArguments&) {
  throw UserError(ExitCode::environment, machine::trouble(cuda_facts()));
}

}  // namespace fourfold::cli
