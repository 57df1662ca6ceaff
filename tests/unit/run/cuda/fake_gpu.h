// The CUDA backend on a device that is not there, with its own kernels run thread by thread on the
// CPU. Header only.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "kernels/cuda/target.h"
#include "run/cuda/cuda_backend.h"
#include "support/cuda_emulation/emulation.h"
#include "support/fake_device.h"
#include "support/small_run.h"

namespace fourfold::run::cuda {

/// One at a time: kernels go to its streams.
class FakeGpu : public test::FakeDevice {
 public:
  explicit FakeGpu(unsigned seed = 1) : FakeDevice(seed) {
    cuda_emulation::set_streams(
        {[this](void* stream, Work work) { enqueue(static_cast<Stream>(stream), std::move(work)); },
         [this](void* stream) { synchronize(static_cast<Stream>(stream)); }});
  }
  ~FakeGpu() override { cuda_emulation::set_streams({}); }

  /// Tensors are larger than a staging block.
  static CudaOptions options() {
    return {.prepare =
                [](std::string_view, const kernels::Problem& problem) {
                  return kernels::cuda::prepare_own(problem);
                },
            .world = nullptr,
            .staging_block_bytes = 100};
  }
  std::unique_ptr<CudaBackend> backend() { return std::make_unique<CudaBackend>(*this, options()); }
  test::SmallRun run(const test::RunSetup& setup) {
    return {setup, kernels::cuda::own_target(), backend()};
  }
};

}  // namespace fourfold::run::cuda
