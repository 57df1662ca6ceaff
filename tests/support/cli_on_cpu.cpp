#include "support/cli_on_cpu.h"

#include <sys/mman.h>

#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cli/bench.h"
#include "kernels/cuda/target.h"
#include "measure/cuda/device_kernels.h"
#include "measure/cuda_parts.h"
#include "measure/cuda_run.h"
#include "run/cuda/shared_gpu_backend.h"
#include "run/cuda/staged_world.h"
#include "unit/run/cuda/fake_gpu.h"

namespace fourfold::test {
namespace {

/// A device to measure on whose every launch takes a microsecond, and computes nothing.
class CountingDevice : public measure::BenchDevice {
 public:
  ~CountingDevice() override { give_back(); }

  /// Pages that nobody touches.
  std::byte* reserve(std::int64_t bytes) override {
    give_back();
    bytes_ = static_cast<std::size_t>(bytes);
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(memory != MAP_FAILED, "the host has addresses for a fake device");
    memory_ = static_cast<std::byte*>(memory);
    return memory_;
  }
  void fill(std::byte*, std::int64_t, DType, float) override {}
  void write(std::byte*, std::span<const std::byte>) override {}
  double time_s(const std::function<void(kernels::cuda::Stream)>& work) override {
    std::int64_t launches = 0;
    cuda_emulation::set_streams({[&](void*, auto) { ++launches; }, [](void*) {}});
    work(nullptr);
    cuda_emulation::set_streams({});
    return 1e-6 * static_cast<double>(launches);
  }
  std::int64_t cache_bytes() const override { return 1000; }

 private:
  void give_back() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// With the device it works on.
struct OpenGpu {
  ~OpenGpu() { fake_cuda().works = gpu.works; }
  run::cuda::FakeGpu gpu;
};
class BackendOnFakeGpu : private OpenGpu, public run::cuda::CudaBackend {
 public:
  explicit BackendOnFakeGpu(comm::World* world)
      : CudaBackend(gpu, {.prepare = kernels::cuda::prepare, .world = world}) {
    if (fake_cuda().lost_behind_works) gpu.lose_at_work(*fake_cuda().lost_behind_works);
  }
};

class FakeDeviceOfRank : public measure::DeviceOfRank {
 public:
  explicit FakeDeviceOfRank(comm::World& world) : carries_(open_.gpu, world) {}
  run::cuda::Device& device() override { return open_.gpu; }
  comm::DeviceWorld& carries() override { return carries_; }

 private:
  OpenGpu open_;
  run::cuda::StagedWorld carries_;
};

class FakeGpuForThreads : private OpenGpu, public measure::CudaForThreads {
 public:
  FakeGpuForThreads() {
    if (fake_cuda().lost_behind_works) gpu.lose_at_work(*fake_cuda().lost_behind_works);
  }
  std::unique_ptr<run::Backend> make_backend(comm::World& world) override {
    return run::cuda::make_shared_gpu_backend(shared_, world, {.prepare = kernels::cuda::prepare});
  }

 private:
  run::cuda::SharedGpu shared_{gpu};
};

}  // namespace

FakeCuda& fake_cuda() {
  static FakeCuda cuda;
  return cuda;
}

}  // namespace fourfold::test

namespace fourfold::measure {

machine::CudaFacts cuda_facts() {
  machine::CudaFacts facts;
  facts.driver = facts.runtime = 13000;
  facts.architectures = "90";
  for (int device = 0; device < test::fake_cuda().devices; ++device)
    facts.devices.push_back(
        {.name = test::fake_cuda().name,
         .bus_id = format("0000:{:02x}:00", test::fake_cuda().are_slices ? 0 : device),
         .uuid = format("GPU-{}", device),
         .capability = {9, 0},
         .memory_bytes = std::int64_t{1} << 31,
         .l2_bytes = 1 << 20,
         .multiprocessors = 4});
  machine::judge(facts, machine::CudaAnswer::devices);
  return facts;
}

/// Pairs of GPUs are joined by NVLink, and what is further away by the system.
std::vector<machine::GpuLink> cuda_links(const std::string& bus_id,
                                         const std::vector<std::string>& others) {
  const auto pair_of = [](const std::string& id) {
    return std::stoi(id.substr(5, 2), nullptr, 16) / 2;
  };
  std::vector<machine::GpuLink> links;
  for (const std::string& other : others)
    if (pair_of(other) == pair_of(bus_id))
      links.push_back({machine::GpuWay::nvlink, true});
    else
      links.push_back({machine::GpuWay::system, false});
  return links;
}

std::vector<machine::CudaLibrary> cuda_libraries() {
  const std::string& version = test::fake_cuda().library_version;
  return {{"cuBLASLt", version, version}, {"cuDNN", version, version}};
}

std::optional<std::int64_t> cuda_free_memory_bytes(int) {
  return test::fake_cuda().free_bytes;
}

std::optional<machine::Target> cuda_target(CudaKernels kernels,
                                           std::vector<machine::Choice> measured) {
  using kernels::cuda::AttentionBy;
  if (kernels == CudaKernels::own) return kernels::cuda::own_target();
  // The model of cuDNN is for those who ask for other bits in each run: the own kernels that it has
  // are tried without it by all others.
  return kernels::cuda::target(
      kernels::cuda::FloatProducts::full,
      kernels == CudaKernels::fastest ? AttentionBy::cudnn_fast : AttentionBy::own,
      std::move(measured));
}

std::vector<std::string> cuda_implementations(const std::string& row, DType dtype) {
  return kernels::cuda::known_implementations(row, dtype);
}

std::vector<machine::KernelTable::Line> time_cuda_kernels(
    int, const std::vector<machine::KernelTable::Line>& known,
    const std::vector<kernels::Problem>& problems, const machine::Target& target, double seconds) {
  test::CountingDevice device;
  return measure::cuda::time_device_kernels(device, known, problems, target,
                                            test::fake_cuda().free_bytes / 2, seconds);
}

std::unique_ptr<run::Backend> make_cuda_backend(int, comm::World* world, Between) {
  return std::make_unique<test::BackendOnFakeGpu>(world);
}

std::unique_ptr<DeviceOfRank> open_device_of_rank(int, comm::World& world, Between) {
  return std::make_unique<test::FakeDeviceOfRank>(world);
}

std::unique_ptr<CudaForThreads> open_cuda_for_threads() {
  return std::make_unique<test::FakeGpuForThreads>();
}

}  // namespace fourfold::measure

namespace fourfold::cli {

void bench_cuda(const BenchArguments& arguments) {
  using kernels::cuda::FloatProducts;
  test::CountingDevice device;
  const auto floats = arguments.dtype == "tf32" ? FloatProducts::tf32 : FloatProducts::full;
  bench_device_step(arguments,
                    measure::cuda::device_kernels(device, floats, arguments.seconds, {}));
}

}  // namespace fourfold::cli
