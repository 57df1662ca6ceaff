#include "run/cuda/shared_gpu_backend.h"

#include <utility>

namespace fourfold::run::cuda {
namespace {

/// Comes before the backend, and stays until it is gone.
struct OwnView {
  OwnView(SharedGpu& gpu, comm::World& world) : view(gpu, world) {}
  SharedGpuWorld view;
};

class SharedGpuBackend : private OwnView, public CudaBackend {
 public:
  SharedGpuBackend(SharedGpu& gpu, comm::World& world, CudaOptions options)
      : OwnView(gpu, world), CudaBackend(gpu.device(), completed(gpu, world, std::move(options))) {}

 private:
  CudaOptions completed(SharedGpu& gpu, comm::World& world, CudaOptions options) {
    options.world = &world;
    options.device_world = &view;
    options.allocate = [&gpu](std::int64_t bytes) { return gpu.allocate(bytes); };
    return options;
  }
};

}  // namespace

std::unique_ptr<Backend> make_shared_gpu_backend(SharedGpu& gpu, comm::World& world,
                                                 CudaOptions options) {
  gpu.device().enter();
  return std::make_unique<SharedGpuBackend>(gpu, world, std::move(options));
}

}  // namespace fourfold::run::cuda
