// The CUDA kernels on a GPU: every case of every family, own kernels, cuBLASLt and cuDNN, in f32
// and bf16. Skipped where no GPU answers.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <stdexcept>

#include "base/format.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/target.h"
#include "numerics/cuda/copy_cases.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw std::runtime_error(format("{}: {}", call, cudaGetErrorString(status)));
}

/// A copy of host memory on the device.
class DeviceCopy {
 public:
  DeviceCopy(void* host, std::size_t bytes) : host_(host), bytes_(bytes) {
    check(cudaMalloc(&device_, bytes + 1), "cudaMalloc");
    check(cudaMemcpy(device_, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceCopy() { cudaFree(device_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  void* data() const { return device_; }
  void copy_back() const {
    check(cudaMemcpy(host_, device_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
  }

 private:
  void* host_;
  void* device_ = nullptr;
  std::size_t bytes_;
};

constexpr std::size_t guard_bytes = 64;  // the harness's, behind operands and workspace

kernels::Run on_device(const std::string& implementation, const kernels::Problem& problem) {
  return [enqueue = kernels::cuda::prepare(implementation, problem)](kernels::Tensors operands,
                                                                     kernels::Workspace workspace) {
    std::map<void*, std::unique_ptr<DeviceCopy>> copies;  // operands may share memory
    std::vector<kernels::Tensor> moved(operands.begin(), operands.end());
    for (kernels::Tensor& tensor : moved) {
      std::unique_ptr<DeviceCopy>& copy = copies[tensor.data];
      if (copy == nullptr)
        copy = std::make_unique<DeviceCopy>(
            tensor.data,
            static_cast<std::size_t>(tensor.elements() * size_bytes(tensor.dtype)) + guard_bytes);
      tensor.data = copy->data();
    }
    DeviceCopy scratch(workspace.data(), workspace.size() + guard_bytes);
    enqueue(moved, {static_cast<std::byte*>(scratch.data()), workspace.size()}, nullptr);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (const auto& [host, copy] : copies) copy->copy_back();
    scratch.copy_back();
  };
}

Kernels kernels_by(const std::string& implementation) {
  return {[=](const kernels::Problem& problem) { return on_device(implementation, problem); },
          [=](const kernels::Problem& problem) {
            return kernels::cuda::target().workspace_bytes(implementation, problem.op,
                                                           problem.shapes, problem.dtype);
          }};
}

/// Why nothing can run here; empty where a GPU answers.
std::string why_not() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return devices == 0 ? "none was found" : "";
}

void skip_without_device() {
  static const std::string reason = why_not();
  if (!reason.empty()) GTEST_SKIP() << "no CUDA device: " << reason;
}

class CudaDevice : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { skip_without_device(); }
};

/// Whether an implementation has the case.
bool computes(const std::string& implementation, const Case& sample, DType dtype) {
  if (implementation == "cublaslt") return op::product_of(sample.op).has_value();
  if (implementation == "own") return true;
  std::vector<Shape> shapes;
  for (const Array& read : sample.reads) shapes.push_back(read.shape);
  for (const Shape& shape : op::outputs(sample.op, std::vector(shapes))) shapes.push_back(shape);
  return kernels::cuda::cudnn::computes({sample.op, dtype, shapes, 1});
}

TEST_P(CudaDevice, results_are_within_the_derived_bound_and_the_same_bits_twice_and_in_place) {
  static const std::map<std::string, Kernels> sources = {{"own", kernels_by("own")},
                                                         {"cublaslt", kernels_by("cublaslt")},
                                                         {"cudnn", kernels_by("cudnn")}};
  const Case& sample = GetParam();
  const auto run = [&](const Backend& backend, Aliasing aliasing) {
    return apply(sample.op, backend, sample.reads, sample.updates, aliasing).bytes;
  };
  for (const auto& [name, source] : sources)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (!computes(name, sample, dtype)) continue;
      const Backend backend{name, dtype, 1, &source};
      if (dtype == DType::f32 || is_bounded_in_bf16(sample.op))
        expect_within_bound(sample, backend);
      const auto bytes = run(backend, Aliasing::none);
      EXPECT_EQ(run(backend, Aliasing::none), bytes) << to_string(backend);
      EXPECT_EQ(run(backend, Aliasing::where_allowed), bytes) << to_string(backend);
    }
}

void in_device_memory(const Bytes& from, Bytes& to,
                      const std::function<void(const std::byte*, std::byte*)>& copy) {
  Bytes source = from;
  const DeviceCopy read(source.data(), source.size()), written(to.data(), to.size());
  copy(static_cast<const std::byte*>(read.data()), static_cast<std::byte*>(written.data()));
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  written.copy_back();
}

class CudaDeviceCopies : public testing::Test {
 protected:
  void SetUp() override { skip_without_device(); }
};
TEST_F(CudaDeviceCopies, give_the_bytes_of_the_cpu_and_touch_no_other) {
  expect_all_rows_copied(in_device_memory);
  expect_all_reordered(in_device_memory);
}

INSTANTIATE_TEST_SUITE_P(Every, CudaDevice, testing::ValuesIn(all_cases()), [](const auto& tested) {
  std::string name = format("{}_{}_{}", op::name(tested.param.op), tested.param.name, tested.index);
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
});

}  // namespace
}  // namespace fourfold::numerics
