#include "kernels/cuda/devices.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/format.h"
#include "kernels/cuda/check.h"

namespace fourfold::kernels::cuda {
namespace {

machine::CudaAnswer answer_of(cudaError_t status, int devices) {
  switch (status) {
    case cudaSuccess:
      return devices > 0 ? machine::CudaAnswer::devices : machine::CudaAnswer::none;
    case cudaErrorNoDevice:
      return machine::CudaAnswer::none;
    case cudaErrorInsufficientDriver:
      return machine::CudaAnswer::driver_insufficient;
    default:
      return machine::CudaAnswer::failed;
  }
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : 0;
}

/// "GPU-" and 32 digits. Of a slice (MIG) its own, which the driver has given from CUDA 11.4 on:
/// https://docs.nvidia.com/cuda/cuda-driver-api, "cuDeviceGetUuid_v2". The driver's library is
/// loaded once there are devices; what cudaGetDeviceProperties says is the board's in some
/// versions, and serves where the driver has no such call.
std::string uuid_of(int device, const cudaDeviceProp& properties) {
  std::array<char, sizeof properties.uuid.bytes> bytes{};
  std::copy_n(properties.uuid.bytes, bytes.size(), bytes.begin());
  if (void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    int (*get)(int* handle, int number) = nullptr;
    int (*uuid)(char* bytes, int handle) = nullptr;
    get = reinterpret_cast<decltype(get)>(dlsym(driver, "cuDeviceGet"));
    uuid = reinterpret_cast<decltype(uuid)>(dlsym(driver, "cuDeviceGetUuid_v2"));
    int handle = 0;
    decltype(bytes) own{};
    if (get != nullptr && uuid != nullptr && get(&handle, device) == 0 &&
        uuid(own.data(), handle) == 0)
      bytes = own;
    dlclose(driver);
  }
  std::string text = "GPU-";
  for (const char byte : bytes) text += format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

machine::CudaDevice device_facts(int device, const cudaDeviceProp& properties) {
  constexpr double hz_per_khz = 1000;
  return {.name = properties.name,
          .bus_id = format("{:04x}:{:02x}:{:02x}", properties.pciDomainID, properties.pciBusID,
                           properties.pciDeviceID),
          .uuid = uuid_of(device, properties),
          .capability = {properties.major, properties.minor},
          .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
          .l2_bytes = properties.l2CacheSize,
          .multiprocessors = properties.multiProcessorCount,
          .clock_hz = hz_per_khz * attribute(cudaDevAttrClockRate, device)};
}

}  // namespace

machine::CudaFacts facts() {
  machine::CudaFacts found;
  found.architectures = FOURFOLD_CUDA_ARCHITECTURES;
  cudaRuntimeGetVersion(&found.runtime);
  if (cudaDriverGetVersion(&found.driver) != cudaSuccess) found.driver = 0;
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) count = 0;
  for (int device = 0; device < count && status == cudaSuccess; ++device) {
    cudaDeviceProp properties{};
    status = cudaGetDeviceProperties(&properties, device);
    if (status == cudaSuccess) found.devices.push_back(device_facts(device, properties));
  }
  if (status != cudaSuccess) {
    found.error = cudaGetErrorString(status);
    cudaGetLastError();  // it is told, and must not meet the next call
  }
  machine::judge(found, answer_of(status, count));
  return found;
}

std::optional<std::int64_t> free_memory_bytes(int device) {
  int before = 0;
  std::size_t free = 0, total = 0;
  if (cudaGetDevice(&before) != cudaSuccess) return std::nullopt;
  const bool is_known =
      cudaSetDevice(device) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess;
  cudaSetDevice(before);
  cudaGetLastError();
  if (!is_known) return std::nullopt;
  return static_cast<std::int64_t>(free);
}

}  // namespace fourfold::kernels::cuda
