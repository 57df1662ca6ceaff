#include "kernels/cuda/check.h"

#include "base/error.h"
#include "base/format.h"

namespace fourfold::kernels::cuda {
namespace {

/// What a user can do about it; null: nothing, it is our bug.
const char* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return "this machine has no NVIDIA GPU that CUDA sees; look at CUDA_VISIBLE_DEVICES";
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return "the NVIDIA driver is missing or older than the toolkit; install a newer driver";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled:
      return "this GPU is not among those built for; configure with another "
             "FOURFOLD_CUDA_ARCHITECTURES";
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorInitializationError:
    case cudaErrorOperatingSystem:
    case cudaErrorSystemNotReady:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsServerNotReady:
    case cudaErrorUnknown:
      return "the GPU was lost, is not ready or is in use; look at nvidia-smi and the system's log";
    default:
      return nullptr;
  }
}

}  // namespace

void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // it is told here; libraries that look must not take it for theirs
  if (status == cudaErrorMemoryAllocation)
    throw UserError(
        ExitCode::out_of_memory,
        format("{}: the GPU has not enough free memory; end what else runs there", call));
  if (const char* what_to_do = advice(status))
    throw UserError(ExitCode::environment,
                    format("{}: {}: {}", call, cudaGetErrorString(status), what_to_do));
  fail_internal(format("{} succeeds; CUDA says: {}", call, cudaGetErrorString(status)));
}

void allow_shared_bytes(const void* kernel, std::size_t bytes) {
  int device = 0, most = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "cudaDeviceGetAttribute");
  if (bytes > static_cast<std::size_t>(most))
    throw UserError(
        ExitCode::environment,
        format("attention with heads this wide needs {} KiB of shared memory, a block of "
               "this GPU has {}; build with cuDNN, or set more attention heads",
               bytes >> 10, most >> 10));
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)),
             "cudaFuncSetAttribute");
}

}  // namespace fourfold::kernels::cuda
