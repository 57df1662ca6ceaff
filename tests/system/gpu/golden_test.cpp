// Training steps on a GPU against PyTorch: the files of golden/data.
#include "golden/golden.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "support/gpu.h"

namespace fourfold::test {
namespace {

/// Those of tests/golden/golden_test.cpp in float32.
constexpr double bound = 1e-5, weight_bound = 2e-5;

class GoldenOnGpu : public OnGpu {
 protected:
  void expect_equal(const std::string& file, std::int64_t accumulation) {
    SCOPED_TRACE(file);
    const Golden golden(file);
    SmallRun gpu = run(golden.run_setup(DType::f32, accumulation));
    gpu.init(false);
    for (const program::Buffer* b : gpu.parameters())
      gpu.set_doubles(*b, golden.tensor<double>("initial/" + b->name));
    const auto loss = golden.tensor<double>("loss"), norms = golden.tensor<double>("grad_norm"),
               lr = golden.tensor<double>("lr");
    for (std::size_t step = 0; step < loss.size(); ++step) {
      FixedFeeder feeder = golden.batch(step);
      const auto result = gpu.step(feeder, static_cast<std::int64_t>(step), lr[step]);
      const auto valid = static_cast<double>(result.valid_count);
      EXPECT_LE(std::abs(result.loss_sum / valid - loss[step]), bound * std::abs(loss[step]));
      EXPECT_LE(std::abs(result.grad_norm - norms[step]), bound * norms[step]) << step;
    }
    for (const program::Buffer* b : gpu.parameters()) {
      const auto got = gpu.doubles(*b), expected = golden.tensor<double>("final/" + b->name);
      const KeyBias keys = key_bias(b->name, got.size());
      EXPECT_LE(relative_error(without(got, keys), without(expected, keys), 1e-6 * norms[0]),
                weight_bound)
          << b->name;
    }
  }
};

TEST_P(GoldenOnGpu, ten_steps_equal_pytorch) {
  expect_equal("gpt-tied-bias", 1);
  expect_equal("gpt-untied-nobias", 4);
  expect_equal("vgg-adamw", 2);
  expect_equal("vgg-sgd-nesterov", 1);
}

INSTANTIATE_TEST_SUITE_P(By, GoldenOnGpu, testing::ValuesIn(gpu_kernels()), kernels_name);

}  // namespace
}  // namespace fourfold::test
