// Timing on a device, with one whose clock only the calls move.
#include "measure/device_bench.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>

namespace fourfold::measure {
namespace {

class FakeDevice : public BenchDevice {
 public:
  std::byte* reserve(std::int64_t bytes) override {
    memory_ = std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes));
    reserved = bytes;
    return memory_.get();
  }
  void fill(std::byte* at, std::int64_t elements, DType dtype, float least) override {
    filled[dtype] += elements;
    if (least == 0) positive += elements;
    EXPECT_TRUE(dtype == DType::f32 || dtype == DType::bf16);  // as a GPU's kernel has them
    EXPECT_GE(at, memory_.get());
    EXPECT_LE(at + elements * size_bytes(dtype), memory_.get() + reserved);
  }
  void write(std::byte* at, std::span<const std::byte> bytes) override {
    EXPECT_GE(at, memory_.get());
    EXPECT_LE(at + bytes.size(), memory_.get() + reserved);
    std::memcpy(at, bytes.data(), bytes.size());
  }
  double time_s(const std::function<void(kernels::cuda::Stream)>& work) override {
    const double before = now;
    work(nullptr);
    ++samples;
    return now - before;
  }
  std::int64_t cache_bytes() const override { return 1000; }

  double now = 0;
  int samples = 0;
  std::int64_t reserved = 0;
  std::map<DType, std::int64_t> filled;
  std::int64_t positive = 0;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

TEST(MedianCall, is_that_of_a_call_however_many_make_a_sample) {
  for (const double call_s : {1e-6, 3e-4, 0.2}) {
    FakeDevice device;
    const double median = median_call_s(
        device, 0.1, [&](std::int64_t, kernels::cuda::Stream) { device.now += call_s; });
    EXPECT_NEAR(median, call_s, 1e-9 * call_s + 1e-15);
  }
}

TEST(MedianCall, warms_up_before_it_counts) {
  FakeDevice device;
  // Three times as slow until the clocks are up.
  const double median = median_call_s(device, 0.1, [&](std::int64_t, kernels::cuda::Stream) {
    device.now += device.now < 0.8 * warm_up_s ? 3e-3 : 1e-3;
  });
  EXPECT_NEAR(median, 1e-3, 1e-12);
}

TEST(MedianCall, warms_up_no_longer_than_it_is_told) {
  FakeDevice device;
  median_call_s(device, 0, [&](std::int64_t, kernels::cuda::Stream) { device.now += 1e-3; }, 8e-3);
  EXPECT_EQ(device.samples, 8 + least_samples);
}

TEST(MedianCall, a_disturbed_sample_does_not_count) {
  FakeDevice device;
  const double median = median_call_s(device, 0.1, [&](std::int64_t turn, kernels::cuda::Stream) {
    device.now += turn % 10 == 9 ? 0.05 : 1e-3;
  });
  EXPECT_NEAR(median, 1e-3, 1e-12);
}

TEST(MedianCall, takes_some_samples_of_the_slowest_call_and_stops_in_time) {
  FakeDevice slow, quick;
  median_call_s(slow, 0.01, [&](std::int64_t, kernels::cuda::Stream) { slow.now += 1; });
  EXPECT_EQ(slow.samples, least_calls + least_samples);
  median_call_s(quick, 0.1, [&](std::int64_t, kernels::cuda::Stream) { quick.now += 1e-4; });
  EXPECT_LE(quick.now, 0.1 + warm_up_s + 2 * sample_s);
}

TEST(SetsOfOperands, are_as_many_as_push_one_another_out_of_the_cache) {
  EXPECT_EQ(sets_of_operands(10, 1000), 200);
  EXPECT_EQ(sets_of_operands(999, 1000), 3);
  EXPECT_EQ(sets_of_operands(2000, 1000), 1);
  EXPECT_EQ(sets_of_operands(256, 60 << 20), 256);
  EXPECT_EQ(sets_of_operands(1 << 30, 1000), 1);
}

TEST(DeviceKernelBench, goes_through_sets_of_operands_that_do_not_overlap) {
  FakeDevice device;
  const Shape shape{8, 8};
  std::map<const void*, int> calls;
  const auto run = [&](kernels::Tensors operands, kernels::Workspace workspace,
                       kernels::cuda::Stream) {
    ASSERT_EQ(operands.size(), 3U);
    EXPECT_EQ(workspace.size(), 100U);
    for (const kernels::Tensor& tensor : operands) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % 16, 0U);
      ++calls[tensor.data];
    }
    device.now += 1e-4;
  };
  DeviceKernelBench bench(device, {op::Contract{}, DType::f32, {shape, shape, shape}}, run, 100);
  // 3 x 256 bytes a set, and 1000 bytes of cache.
  EXPECT_NEAR(bench.measure_s(0.01), 1e-4, 1e-12);
  EXPECT_EQ(calls.size(), 9U);
  EXPECT_EQ(device.filled[DType::f32], 3 * 3 * 64);
  int least = 1 << 30, most = 0;
  for (const auto& [at, count] : calls) {
    least = std::min(least, count);
    most = std::max(most, count);
  }
  EXPECT_LE(most - least, 1);
}

TEST(DeviceKernelBench, labels_are_spread_over_their_table_and_switches_are_zero) {
  const auto numbers_of = [](const kernels::Problem& problem) {
    FakeDevice device;
    std::set<std::int32_t> numbers;
    const auto run = [&](kernels::Tensors operands, kernels::Workspace, kernels::cuda::Stream) {
      for (const kernels::Tensor& tensor : operands) {
        if (tensor.dtype != DType::i32) continue;
        for (std::int64_t i = 0; i < tensor.elements(); ++i)
          numbers.insert(tensor.as<std::int32_t>()[i]);
      }
      device.now += 1;
    };
    DeviceKernelBench(device, problem, run, 0).measure_s(0.01);
    EXPECT_EQ(device.filled.count(DType::i32), 0U);
    EXPECT_EQ(device.filled.count(DType::f32), 1U);
    return numbers;
  };
  const Shape logits{2, 3, 5}, tokens{2, 3};
  EXPECT_EQ(numbers_of({op::CrossEntropy{}, DType::f32, {logits, tokens, tokens, tokens}}),
            (std::set{0, 1, 2, 3, 4}));
  op::Attention documents;
  documents.documents = true;
  const Shape qkv{1, 4, 3, 1, 2}, y{1, 4, 1, 2};
  EXPECT_EQ(numbers_of({documents, DType::f32, {qkv, {1, 4}, y, {1, 1, 4}}}), (std::set{0}));
}

TEST(DeviceKernelBench, an_update_is_applied_to_moments_that_have_roots) {
  FakeDevice device;
  const Shape scalar, weights{5};
  const kernels::Problem update{
      op::AdamW{},
      DType::f32,
      {weights, scalar, scalar, scalar, scalar, weights, weights, weights, scalar}};
  const auto run = [&](kernels::Tensors operands, kernels::Workspace, kernels::cuda::Stream) {
    for (const kernels::Tensor& tensor : operands) {
      if (tensor.dtype == DType::i64) {
        EXPECT_EQ(*tensor.as<std::int64_t>(), 1);
      }
      if (tensor.dtype == DType::f64) {
        EXPECT_EQ(*tensor.as<double>(), 1);
      }
    }
    device.now += 1;
  };
  DeviceKernelBench(device, update, run, 0).measure_s(0.01);
  const std::int64_t sets = sets_of_operands(9 * 256, device.cache_bytes());
  EXPECT_EQ(device.filled[DType::f32], sets * 4 * 5);
  EXPECT_EQ(device.positive, sets * 3 * 5);
}

}  // namespace
}  // namespace fourfold::measure
