// Ceilings are rates of this machine: only what holds on any machine, however busy, can be tested.
#include "measure/ceilings.h"

#include <gtest/gtest.h>

#include "measure/best_rate.h"
#include "measure/kernel_bench.h"

namespace fourfold::measure {
namespace {

TEST(BestRate, is_that_of_the_fastest_stretch) {
  // The slow call lies in a stretch of its own, after the one that warms up.
  int calls = 0;
  const double rate = best_rate(0.2, 3, [&] {
    const double end = now_s() + (calls == 1 ? 0.01 : 0.002);
    while (now_s() < end) {
    }
    ++calls;
  });
  EXPECT_GE(calls, 3);
  EXPECT_LE(rate, 3 / 0.002);
  EXPECT_GT(rate, 3 / 0.01);
}

TEST(Ceilings, lie_between_what_any_machine_and_no_machine_can_do) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double rate = measure_gemm_flops_per_s(dtype, 1, 0.02);
    EXPECT_GT(rate, 1e8);
    EXPECT_LT(rate, 1e12);
  }
  for (const auto measure : {measure_triad_bytes_per_s, measure_copy_bytes_per_s}) {
    const double rate = measure(1, 0.02);
    EXPECT_GT(rate, 1e8);
    EXPECT_LT(rate, 1e12);
  }
}

TEST(KernelBench, more_work_takes_longer) {
  const auto seconds = [](std::int64_t size) {
    const Shape square{size, size};
    KernelBench bench("openblas", {op::Contract{}, DType::f32, {square, square, square}, 1}, 0);
    return bench.measure_s(0.02);
  };
  EXPECT_LT(8 * seconds(64), seconds(512));
}

TEST(KernelBench, tokens_and_labels_lie_within_their_tables) {
  // A token or a label outside is a write outside of the operands, which a sanitizer build sees.
  const Shape tokens{2, 3}, table{5, 4}, x{2, 3, 4}, logits{2, 3, 5};
  KernelBench("vector", {op::Embedding{}, DType::f32, {tokens, table, x}, 1}, 0).measure_s(0.001);
  KernelBench("vector", {op::EmbeddingGradient{.rows = 5}, DType::f32, {tokens, x, table}, 1}, 0)
      .measure_s(0.001);
  KernelBench("vector", {op::CrossEntropy{}, DType::f32, {logits, tokens, tokens, tokens}, 1}, 0)
      .measure_s(0.001);
}

}  // namespace
}  // namespace fourfold::measure
