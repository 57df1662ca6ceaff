// support/gpu.h on a GPU that is not there; cuBLASLt is the model of it.
#include "kernels/cuda/target.h"
#include "support/gpu.h"
#include "unit/run/cuda/fake_gpu.h"

namespace fourfold::test {
namespace {

class EmulatedGpu : public Gpu {
 public:
  run::cuda::Device& device() override { return device_; }
  run::cuda::CudaOptions options() const override {
    run::cuda::CudaOptions options = run::cuda::FakeGpu::options();
    options.prepare = kernels::cuda::prepare;
    return options;
  }

 private:
  run::cuda::FakeGpu device_;
};

}  // namespace

std::string why_no_gpu() {
  return "";
}

std::unique_ptr<Gpu> open_gpu() {
  return std::make_unique<EmulatedGpu>();
}

bool is_emulated() {
  return true;
}

bool takes_cudnn() {
  return false;
}

std::vector<GpuKernels> gpu_kernels() {
  return {{"own", kernels::cuda::own_target()}, {"libraries", kernels::cuda::target()}};
}

}  // namespace fourfold::test
