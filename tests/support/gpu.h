// The GPU of tests that run on two: on the one that answers on this machine (gpu_on_device.cpp), or
// on one that is not there, whose kernels run on the CPU (gpu_on_cpu.cpp). Which of them is settled
// by what an executable is linked with.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "machine/target.h"
#include "run/cuda/cuda_backend.h"
#include "support/small_run.h"

namespace fourfold::test {

/// Why there is none; empty where tests can run.
std::string why_no_gpu();

/// True if a CPU takes its place, which is slow.
bool is_emulated();

/// One at a time.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual run::cuda::Device& device() = 0;
  virtual run::cuda::CudaOptions options() const = 0;

  /// Must be gone before the GPU is.
  SmallRun run(const RunSetup& setup, const machine::Target& target) {
    return {setup, target, std::make_unique<run::cuda::CudaBackend>(device(), options())};
  }
};
std::unique_ptr<Gpu> open_gpu();

/// What programs can be compiled for here.
struct GpuKernels {
  std::string name;  // letters alone
  machine::Target target;

  friend void PrintTo(const GpuKernels& kernels, std::ostream* out) { *out << kernels.name; }
};
std::vector<GpuKernels> gpu_kernels();

/// True if programs have cuDNN's attention where it computes it: on a device that has the library.
bool takes_cudnn();

/// With attention that cuDNN computes in bf16: no dropout, heads of 64, and a multiple of four
/// tokens and heads in a micro-batch. Small, because a CPU takes the place of the GPU too.
inline RunSetup for_cudnn(RunSetup setup) {
  setup.gpt.dropout = 0;
  setup.gpt.num_layers = 1;
  setup.gpt.num_attention_heads = 1;
  setup.gpt.hidden_size = setup.gpt.ffn_hidden_size = 64;
  setup.gpt.max_position_embeddings = setup.plan.seq_length = 16;
  return setup;
}

/// A test for each of them. Skipped, with the reason, where there is no GPU.
class OnGpu : public testing::TestWithParam<GpuKernels> {
 protected:
  void SetUp() override {
    static const std::string reason = why_no_gpu();
    if (!reason.empty()) GTEST_SKIP() << "no CUDA device: " << reason;
    gpu_ = open_gpu();
  }
  Gpu& gpu() { return *gpu_; }
  SmallRun run(const RunSetup& setup) { return gpu_->run(setup, GetParam().target); }

 private:
  std::unique_ptr<Gpu> gpu_;
};

inline std::string kernels_name(const testing::TestParamInfo<GpuKernels>& tested) {
  return tested.param.name;
}

}  // namespace fourfold::test
