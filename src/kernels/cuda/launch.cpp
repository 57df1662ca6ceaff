#include "kernels/cuda/launch.h"

#include <cstdlib>
#include <string_view>

#include "kernels/cuda/check.h"

namespace fourfold::kernels::cuda {
namespace {

/// Graphs keep such launches from CUDA 12.3 on.
bool begins_early() {
  const char* const wanted = std::getenv("FOURFOLD_EARLY_LAUNCH");
  if (wanted == nullptr || std::string_view(wanted) != "1") return false;
  constexpr int least_driver = 12030, least_capability = 9;
  int driver = 0, device = 0, capability = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device),
             "cudaDeviceGetAttribute");
  return driver >= least_driver && capability >= least_capability;
}

}  // namespace

void launch_kernel(const void* kernel, const LaunchShape& shape, Stream stream, void** arguments) {
  // GPUs of a host are of one kind.
  static const bool is_early = begins_early();
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.blocks_x);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = is_early ? 1 : 0;
  check_cuda(cudaLaunchKernelExC(&config, kernel, arguments), "cudaLaunchKernelExC");
}

}  // namespace fourfold::kernels::cuda
