#include "measure/cuda_run.h"

#include <utility>

#include "comm/nccl_world.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/target.h"
#include "measure/cuda/device.h"
#include "measure/cuda/device_kernels.h"
#include "measure/cuda_parts.h"
#include "run/cuda/cuda_backend.h"
#include "run/cuda/cuda_device.h"
#include "run/cuda/shared_gpu_backend.h"
#include "run/cuda/staged_world.h"

namespace fourfold::measure {
namespace {

/// With the device it works on.
struct OpenDevice {
  explicit OpenDevice(int index) : device(run::cuda::open_device(index)) {}
  std::unique_ptr<run::cuda::Device> device;
};
class BackendOnDevice : private OpenDevice, public run::cuda::CudaBackend {
 public:
  BackendOnDevice(int index, comm::World* world)
      : OpenDevice(index),
        CudaBackend(*device, {.prepare = kernels::cuda::prepare, .world = world}) {}
};

/// With what passes between the ranks besides.
struct OpenStaged : OpenDevice {
  OpenStaged(int index, comm::World& world, Between between)
      : OpenDevice(index), view(*device, world, options_of(between)) {}
  run::cuda::StagedWorld view;

 private:
  static run::cuda::StagedOptions options_of(Between between) {
    using Messages = run::cuda::StagedOptions::Messages;
    run::cuda::StagedOptions options;
    options.messages = between == Between::mpi ? Messages::of_device_memory : Messages::by_the_host;
    return options;
  }
};
struct OpenNccl : OpenDevice {
  OpenNccl(int index, comm::World& world, Between /*nccl*/)
      : OpenDevice(index), view(world, comm::load_nccl()) {}
  comm::NcclWorld view;
};
template <class Open>
class BackendOfProcess : private Open, public run::cuda::CudaBackend {
 public:
  BackendOfProcess(int index, comm::World& world, Between between)
      : Open(index, world, between),
        CudaBackend(
            *this->device,
            {.prepare = kernels::cuda::prepare, .world = &world, .device_world = &this->view}) {}
};

template <class Open>
class OpenOfRank : public DeviceOfRank {
 public:
  OpenOfRank(int index, comm::World& world, Between between) : open_(index, world, between) {}
  run::cuda::Device& device() override { return *open_.device; }
  comm::DeviceWorld& carries() override { return open_.view; }

 private:
  Open open_;
};

class SharedByThreads : public CudaForThreads {
 public:
  std::unique_ptr<run::Backend> make_backend(comm::World& world) override {
    return run::cuda::make_shared_gpu_backend(gpu_, world, {.prepare = kernels::cuda::prepare});
  }

 private:
  std::unique_ptr<run::cuda::Device> device_ = run::cuda::open_device(0);
  run::cuda::SharedGpu gpu_{*device_};
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

std::vector<machine::KernelTable::Line> time_cuda_kernels(
    int device, const std::vector<machine::KernelTable::Line>& known,
    const std::vector<kernels::Problem>& problems, const machine::Target& target, double seconds) {
  const std::int64_t free_bytes = cuda_free_memory_bytes(device).value_or(0);
  const auto opened = measure::cuda::open_device(device);
  return measure::cuda::time_device_kernels(*opened, known, problems, target, free_bytes / 2,
                                            seconds);
}

std::unique_ptr<run::Backend> make_cuda_backend(int device, comm::World* world, Between between) {
  if (world == nullptr || world->size() == 1)
    return std::make_unique<BackendOnDevice>(device, world);
  if (between == Between::nccl)
    return std::make_unique<BackendOfProcess<OpenNccl>>(device, *world, between);
  return std::make_unique<BackendOfProcess<OpenStaged>>(device, *world, between);
}

std::unique_ptr<DeviceOfRank> open_device_of_rank(int device, comm::World& world, Between between) {
  if (between == Between::nccl)
    return std::make_unique<OpenOfRank<OpenNccl>>(device, world, between);
  return std::make_unique<OpenOfRank<OpenStaged>>(device, world, between);
}

std::unique_ptr<CudaForThreads> open_cuda_for_threads() {
  return std::make_unique<SharedByThreads>();
}

}  // namespace fourfold::measure
