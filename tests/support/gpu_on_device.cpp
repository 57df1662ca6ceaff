// support/gpu.h on the first GPU of this machine.
#include <cuda_runtime_api.h>

#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/target.h"
#include "run/cuda/cuda_device.h"
#include "support/gpu.h"

namespace fourfold::test {
namespace {

class RealGpu : public Gpu {
 public:
  run::cuda::Device& device() override { return *device_; }
  run::cuda::CudaOptions options() const override { return {.prepare = kernels::cuda::prepare}; }

 private:
  std::unique_ptr<run::cuda::Device> device_ = run::cuda::open_device(0);
};

}  // namespace

std::string why_no_gpu() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return devices == 0 ? "none was found" : "";
}

std::unique_ptr<Gpu> open_gpu() {
  return std::make_unique<RealGpu>();
}

bool is_emulated() {
  return false;
}

bool takes_cudnn() {
  return kernels::cuda::cudnn::is_built();
}

std::vector<GpuKernels> gpu_kernels() {
  using kernels::cuda::AttentionBy;
  using kernels::cuda::FloatProducts;
  return {{"own", kernels::cuda::own_target()},
          {"libraries", kernels::cuda::target(FloatProducts::full, AttentionBy::cudnn)}};
}

}  // namespace fourfold::test
