// Initial values and digests.
#include <gtest/gtest.h>

#include <cmath>

#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

/// A digest has no neighbourhood: the bits of a type's digest are compared instead.
Arrays no_bound(const Case&, const Arrays& outputs) {
  return outputs;
}

}  // namespace

std::vector<Case> state_cases() {
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{1}, Shape{3, 7}, Shape{131, 129}}) {
    cases.push_back({"normal", op::InitNormal{random_stream("w"), 0.02, shape}, {scalar(5)}});
    cases.push_back({"value", op::Fill{0.1, shape}, {}});
  }
  cases.push_back({"zeros", op::Digest{random_stream("w")}, {filled({4}, 0)}, {}, 1, no_bound});
  return cases;
}

namespace {

std::vector<std::byte> digest(const Array& x, const Backend& backend) {
  return apply(op::Digest{random_stream("w")}, backend, {x}).bytes[0];
}

TEST(Digest, is_the_same_on_every_backend_and_number_of_threads) {
  const Array x = uniform({131, 129}, "x");
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const int threads : {1, 2, 3})
      EXPECT_EQ(digest(x, {"vector", dtype, threads}), digest(x, {"reference", dtype, 1}));
  const Array numbers = integers({1, 5}, "x", 1000);
  EXPECT_EQ(digest(numbers, {"vector", DType::i64, 2}),
            digest(numbers, {"reference", DType::i64, 1}));
}

TEST(Digest, changes_with_every_bit_and_with_the_order_of_elements) {
  std::vector<float> values = {1.5F, -2.25F, 0.F};
  const auto of = [](std::vector<float>& data) {
    kernels::Problem problem{op::Digest{random_stream("w")}, DType::f32, {Shape{3}, Shape{}}, 1};
    std::uint64_t result = 0;
    const kernels::Tensor tensors[] = {{data.data(), {3}, DType::f32}, {&result, {}, DType::u64}};
    kernels::cpu::prepare("vector", problem)(tensors, {});
    return result;
  };
  const std::uint64_t before = of(values);
  for (std::size_t element = 0; element < 3; ++element)
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<float> changed = values;
      changed[element] =
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(changed[element]) ^ (1U << bit));
      EXPECT_NE(of(changed), before) << element << " " << bit;
    }
  std::vector<float> swapped = {-2.25F, 1.5F, 0.F};
  EXPECT_NE(of(swapped), before);
}

TEST(Fill, zeroes_a_counter) {
  for (const std::string implementation : {"reference", "vector"})
    for (const DType dtype : {DType::i64, DType::u64, DType::f64})
      EXPECT_EQ(apply(op::Fill{0, {}}, {implementation, dtype, 1}, {}).values[0].data[0], 0);
}

TEST(InitNormal, has_the_same_bits_on_every_backend_and_the_stated_deviation) {
  const op::InitNormal op{random_stream("w"), 0.5, {200, 100}};
  EXPECT_EQ(apply(op, {"vector", DType::f32, 3}, {scalar(5)}).bytes,
            apply(op, {"reference", DType::f32, 1}, {scalar(5)}).bytes);
  double sum = 0, squares = 0;
  const Array x = apply(op, {"vector"}, {scalar(5)}).values[0];
  for (const double value : x.data) sum += value, squares += value * value;
  const double count = 20000;
  EXPECT_NEAR(sum / count, 0, 5 * 0.5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 0.25, 5 * 0.25 * std::sqrt(2 / count));
}

}  // namespace
}  // namespace fourfold::numerics
