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
    const auto tokens = golden.tensor<std::int32_t>("tokens"),
               labels = golden.tensor<std::int32_t>("labels");
    const auto loss = golden.tensor<double>("loss"), norms = golden.tensor<double>("grad_norm"),
               lr = golden.tensor<double>("lr");
    const std::size_t per_step = tokens.size() / loss.size();
    for (std::size_t step = 0; step < loss.size(); ++step) {
      const auto part = [&](const std::vector<std::int32_t>& all) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(step * per_step);
        return std::vector<std::int32_t>(begin, begin + static_cast<std::ptrdiff_t>(per_step));
      };
      FixedFeeder feeder(part(tokens), part(labels));
      const auto result = gpu.step(feeder, static_cast<std::int64_t>(step), lr[step]);
      const auto valid = static_cast<double>(result.token_count);
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
  expect_equal("tied-bias", 1);
  expect_equal("untied-nobias", 4);
}

INSTANTIATE_TEST_SUITE_P(By, GoldenOnGpu, testing::ValuesIn(gpu_kernels()), kernels_name);

}  // namespace
}  // namespace fourfold::test
