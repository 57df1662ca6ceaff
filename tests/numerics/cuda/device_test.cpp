// The CUDA kernels on a GPU: every case of every family, own kernels, cuBLASLt and cuDNN, in f32
// and bf16. Skipped where no GPU answers.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>

#include "base/format.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/target.h"
#include "numerics/cuda/all_convolutions.h"
#include "numerics/cuda/copy_cases.h"
#include "numerics/cuda/member_cases.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

using kernels::cuda::cudnn::Order;

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw std::runtime_error(format("{}: {}", call, cudaGetErrorString(status)));
}

constexpr std::size_t guard_bytes = 64;  // the harness's, after operands; ours, after every copy

/// A copy of host memory on the device, with bytes after it that nobody may change.
class DeviceCopy {
 public:
  DeviceCopy(void* host, std::size_t bytes) : host_(host), bytes_(bytes) {
    check(cudaMalloc(&device_, bytes + guard_bytes), "cudaMalloc");
    check(cudaMemcpy(device_, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemset(guard(), guard_byte, guard_bytes), "cudaMemset");
  }
  ~DeviceCopy() { cudaFree(device_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  void* data() const { return device_; }
  void copy_back() const {
    check(cudaMemcpy(host_, device_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    std::array<std::uint8_t, guard_bytes> found{};
    check(cudaMemcpy(found.data(), guard(), guard_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (!std::ranges::all_of(found, [](std::uint8_t byte) { return byte == guard_byte; }))
      throw std::runtime_error(format("a kernel wrote behind its {} bytes", bytes_));
  }

 private:
  static constexpr std::uint8_t guard_byte = 0xA5;
  std::byte* guard() const { return static_cast<std::byte*>(device_) + bytes_; }

  void* host_;
  void* device_ = nullptr;
  std::size_t bytes_;
};

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
    // After it comes a page of the host that nobody may read.
    DeviceCopy scratch(workspace.data(), workspace.size());
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

/// Checks an implementation in a type: bounds, and the same bits twice and where outputs lie on
/// inputs.
void expect_sound(const Case& sample, const std::string& implementation, DType dtype) {
  const Kernels source = kernels_by(implementation);
  const Backend backend{implementation, dtype, 1, &source};
  const auto run = [&](Aliasing aliasing) {
    return apply(sample.op, backend, sample.reads, sample.updates, aliasing).bytes;
  };
  if (dtype == DType::f32 || is_bounded_in_bf16(sample.op)) expect_within_bound(sample, backend);
  const auto bytes = run(Aliasing::none);
  EXPECT_EQ(run(Aliasing::none), bytes) << to_string(backend);
  EXPECT_EQ(run(Aliasing::where_allowed), bytes) << to_string(backend);
}

kernels::Problem problem_of(const Case& sample, DType dtype) {
  std::vector<Shape> shapes;
  for (const Array& read : sample.reads) shapes.push_back(read.shape);
  for (const Shape& shape : op::outputs(sample.op, std::vector(shapes))) shapes.push_back(shape);
  return {sample.op, dtype, shapes, 1};
}

class CudaDevice : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { skip_without_device(); }
};

TEST_P(CudaDevice, own_kernels_are_within_the_derived_bound_and_repeat_their_bits) {
  for (const DType dtype : {DType::f32, DType::bf16}) expect_sound(GetParam(), "own", dtype);
}

class CudaDeviceProducts : public CudaDevice {};
TEST_P(CudaDeviceProducts, of_the_library_are_within_the_derived_bound_and_repeat_their_bits) {
  for (const DType dtype : {DType::f32, DType::bf16}) expect_sound(GetParam(), "cublaslt", dtype);
}

class CudaDeviceAttention : public CudaDevice {
 protected:
  static bool computes(Order order) {
    return kernels::cuda::cudnn::computes(problem_of(GetParam(), DType::bf16), order);
  }
};
TEST_P(CudaDeviceAttention, of_the_library_is_within_the_derived_bound_and_repeats_its_bits) {
  if (!computes(Order::fixed))
    GTEST_SKIP() << "cuDNN has no kernel for this shape, or this build no cuDNN";
  expect_sound(GetParam(), "cudnn", DType::bf16);
}
TEST_P(CudaDeviceAttention, of_the_library_in_any_order_is_within_the_derived_bound) {
  if (!computes(Order::any))
    GTEST_SKIP() << "cuDNN has no such kernel for this shape, or this build no cuDNN";
  const Kernels source = kernels_by("cudnn_fast");
  expect_within_bound(GetParam(), {"cudnn_fast", DType::bf16, 1, &source});
}

/// By cuDNN, where it has kernels, and by cuBLASLt, where a convolution is a product.
class CudaDeviceConvolutions : public CudaDevice {
 protected:
  static std::vector<std::string> libraries_of(DType dtype, kernels::cuda::AttentionBy by) {
    std::vector<std::string> names = kernels::cuda::implementations(
        problem_of(GetParam(), dtype), kernels::cuda::FloatProducts::full, by);
    std::erase(names, "own");
    return names;
  }
};
TEST_P(CudaDeviceConvolutions, of_libraries_are_within_the_derived_bound_and_repeat_their_bits) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::string& name : libraries_of(dtype, kernels::cuda::AttentionBy::cudnn))
      expect_sound(GetParam(), name, dtype);
}
TEST_P(CudaDeviceConvolutions, of_the_library_in_any_order_are_within_the_derived_bound) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::string& name : libraries_of(dtype, kernels::cuda::AttentionBy::cudnn_fast)) {
      if (!name.starts_with("cudnn_fast")) continue;
      const Kernels source = kernels_by(name);
      expect_within_bound(GetParam(), {name, dtype, 1, &source});
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
TEST_F(CudaDeviceCopies, sums_and_maxima_over_members_have_the_bits_of_the_host) {
  expect_all_members_reduced(in_device_memory);
}

std::string name_of(const testing::TestParamInfo<Case>& tested) {
  std::string name = format("{}_{}_{}", op::name(tested.param.op), tested.param.name, tested.index);
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
}

template <class Fits>
std::vector<Case> cases_that(const Fits& fits) {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& sample) { return !fits(sample); });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Every, CudaDevice, testing::ValuesIn(all_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Every, CudaDeviceProducts,
                         testing::ValuesIn(cases_that([](const Case& sample) {
                           return op::product_of(sample.op).has_value();
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Every, CudaDeviceConvolutions, testing::ValuesIn(all_convolutions()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Every, CudaDeviceAttention,
                         testing::ValuesIn(cases_that([](const Case& sample) {
                           return kernels::cuda::cudnn::attention_fits(
                               problem_of(sample, DType::bf16), Order::fixed);
                         })),
                         name_of);

}  // namespace
}  // namespace fourfold::numerics
