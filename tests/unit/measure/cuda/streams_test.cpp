// The kernels that measure memory, run on the CPU thread by thread (support/cuda_emulation).
#include "measure/cuda/streams.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/storage.h"
#include "support/cuda_emulation/emulation.h"

namespace fourfold::measure::cuda {
namespace {

constexpr std::int64_t odd_count = 4099;  // no multiple of what one access moves

/// 16-byte aligned memory of `count` elements and some after that must stay as they are.
template <class T>
struct Array {
  explicit Array(std::int64_t count, T value = {})
      : memory(static_cast<std::size_t>(count + 16), value) {}
  T* data() { return memory.data(); }
  std::vector<T> memory;
};

/// Uniform from `least` to 1: as a number u from 0 to 1, with mean 1/2 and variance 1/12, and of
/// u^2 1/3 and 1/5 - 1/9. Five standard deviations.
void expect_random(const std::vector<double>& values, double least) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    EXPECT_GE(value, least);
    EXPECT_LE(value, 1);
    const double u = (value - least) / (1 - least);
    sum += u;
    squares += u * u;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1. / 12 / count));
  EXPECT_NEAR(squares / count, 1. / 3, 5 * std::sqrt((1. / 5 - 1. / 9) / count));
}

TEST(Streams, random_numbers_lie_between_the_least_and_one_and_are_spread_evenly) {
  for (const float least : {-1.F, 0.F}) {
    Array<float> floats(odd_count, 7.F);
    fill_random(reinterpret_cast<std::byte*>(floats.data()), odd_count, DType::f32, least, nullptr);
    expect_random({floats.memory.begin(), floats.memory.begin() + odd_count}, least);
    EXPECT_EQ(floats.memory[odd_count], 7.F);

    Array<BFloat16> halves(odd_count, BFloat16(7.F));
    fill_random(reinterpret_cast<std::byte*>(halves.data()), odd_count, DType::bf16, least,
                nullptr);
    std::vector<double> values;
    for (std::int64_t i = 0; i < odd_count; ++i)
      values.push_back(static_cast<float>(halves.memory[static_cast<std::size_t>(i)]));
    expect_random(values, least);
    EXPECT_EQ(static_cast<float>(halves.memory[odd_count]), 7.F);
  }
}

TEST(Streams, a_copy_copies_all_and_nothing_else) {
  Array<float> from(odd_count), to(odd_count, -1.F);
  for (std::size_t i = 0; i < from.memory.size(); ++i) from.memory[i] = static_cast<float>(i);
  copy(from.data(), odd_count, to.data(), nullptr);
  for (std::size_t i = 0; i < odd_count; ++i) ASSERT_EQ(to.memory[i], static_cast<float>(i));
  EXPECT_EQ(to.memory[odd_count], -1.F);
}

TEST(Streams, a_triad_adds_what_is_scaled) {
  Array<float> a(odd_count, -1.F), b(odd_count), c(odd_count);
  for (std::size_t i = 0; i < odd_count; ++i) {
    b.memory[i] = static_cast<float>(i);
    c.memory[i] = static_cast<float>(i % 5);
  }
  triad(b.data(), c.data(), 3, odd_count, a.data(), nullptr);
  for (std::size_t i = 0; i < odd_count; ++i)
    ASSERT_EQ(a.memory[i], static_cast<float>(i + 3 * (i % 5)));
  EXPECT_EQ(a.memory[odd_count], -1.F);
}

}  // namespace
}  // namespace fourfold::measure::cuda
