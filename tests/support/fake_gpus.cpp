#include "support/fake_gpus.h"

#include <utility>

#include "base/format.h"
#include "comm/nccl_world.h"
#include "kernels/cuda/target.h"
#include "run/cuda/cuda_backend.h"
#include "support/cuda_emulation/emulation.h"
#include "support/cuda_emulation/late_code.h"
#include "support/fake_stream.h"

namespace fourfold::test {
namespace {

/// As cudaSetDevice: that of the calling thread.
thread_local FakeDevice* current = nullptr;

comm::NcclResult allocate(void** memory, std::size_t bytes) {
  *memory = current->allocate(static_cast<std::int64_t>(bytes));
  return comm::NcclResult::success;
}
comm::NcclResult release(void* memory) {
  current->release(static_cast<std::byte*>(memory));
  return comm::NcclResult::success;
}

/// What the fake NCCL keeps registered is memory of its own.
comm::NcclApi api_on_devices(const FakeNccl& nccl) {
  comm::NcclApi api = nccl.api_without_registration();
  api.mem_alloc = allocate;
  api.mem_free = release;
  return api;
}

/// The others no longer wait for a device whose rank has gone.
class OnDevice {
 public:
  OnDevice(FakeDevice& device, Standstill& together) : device_(device), together_(together) {
    current = &device;
  }
  ~OnDevice() { together_.leave(&device_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  FakeDevice& device_;
  Standstill& together_;
};
struct View : private OnDevice {
  View(FakeDevice& gpu, Standstill& together, comm::World& world, const FakeNccl& nccl)
      : OnDevice(gpu, together), view(world, api_on_devices(nccl)) {}
  comm::NcclWorld view;
};
class Backend : private View, public run::cuda::CudaBackend {
 public:
  Backend(FakeDevice& gpu, Standstill& together, comm::World& world, const FakeNccl& nccl)
      : View(gpu, together, world, nccl),
        CudaBackend(gpu, {.prepare =
                              [](std::string_view, const kernels::Problem& problem) {
                                return kernels::cuda::prepare_own(problem);
                              },
                          .world = &world,
                          .device_world = &view}) {}
};

}  // namespace

FakeGpus::FakeGpus(std::size_t ranks, unsigned seed) : together_(ranks) {
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    devices_.push_back(std::make_unique<FakeDevice>(seed + static_cast<unsigned>(rank)));
    devices_.back()->join(together_);
    devices_.back()->load_late();
  }
  cuda_emulation::set_streams(
      {[](void* stream, FakeDevice::Work work) {
         current->enqueue(static_cast<FakeDevice::Stream>(stream), std::move(work));
       },
       [](void* stream) { current->synchronize(static_cast<FakeDevice::Stream>(stream)); }});
  cuda_emulation::set_before_launch(
      [](const void* kernel) { current->load(format("kernel {}", kernel)); });
}

FakeGpus::~FakeGpus() {
  cuda_emulation::set_before_launch(nullptr);
  cuda_emulation::set_streams({});
}

std::unique_ptr<run::Backend> FakeGpus::make_backend(comm::World& world) {
  return std::make_unique<Backend>(device(world.rank().index()), together_, world, nccl_);
}

void push(comm::DeviceStream stream, std::vector<StreamStep> steps) {
  for (StreamStep& step : steps)
    current->enqueue(stream, std::move(step.run), std::move(step.can_run));
}

}  // namespace fourfold::test
