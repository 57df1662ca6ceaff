#include "job/cuda_run.h"

#include <utility>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/target.h"
#include "run/cuda/cuda_backend.h"
#include "run/cuda/cuda_device.h"

namespace fourfold::job {
namespace {

/// With the device it works on.
struct OpenDevice {
  std::unique_ptr<run::cuda::Device> device = run::cuda::open_device(0);
};
class BackendOnDevice : private OpenDevice, public run::cuda::CudaBackend {
 public:
  explicit BackendOnDevice(comm::World* world)
      : CudaBackend(*device, {.prepare = kernels::cuda::prepare, .world = world}) {}
};

}  // namespace

std::optional<machine::Target> cuda_target(CudaKernels kernels,
                                           std::vector<machine::Choice> measured) {
  using kernels::cuda::AttentionBy;
  if (kernels == CudaKernels::own) return kernels::cuda::own_target();
  return kernels::cuda::target(
      kernels::cuda::FloatProducts::full,
      kernels == CudaKernels::fastest ? AttentionBy::cudnn_fast : AttentionBy::cudnn,
      std::move(measured));
}

std::vector<std::string> cuda_implementations(const std::string& row, DType dtype) {
  return kernels::cuda::known_implementations(row, dtype);
}

std::unique_ptr<run::Backend> make_cuda_backend(comm::World* world) {
  return std::make_unique<BackendOnDevice>(world);
}

}  // namespace fourfold::job
