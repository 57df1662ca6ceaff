// Row 55 of the robustness catalogue (tests/README.md): kernels whose operands have more elements
// than 31 or 32 bits can count, over memory of which only the touched pages are there.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/digest_term.h"
#include "base/host_facts.h"
#include "base/random.h"
#include "kernels/cpu/target.h"
#include "numerics/harness.h"
#include "support/long_run.h"
#include "support/sparse_memory.h"

namespace fourfold::numerics {
namespace {

using test::SparseMemory;

constexpr std::int64_t two_to_the_32 = std::int64_t{1} << 32;

/// One op on memory that the test lays out itself, with each implementation that can.
class Row55 : public testing::TestWithParam<const char*> {
 protected:
  /// Rows of 1024 floats, more elements than 32 bits can count.
  static constexpr std::int64_t columns = 1024, rows = two_to_the_32 / columns + 7;

  void SetUp() override {
    if (!table_.is_there()) GTEST_SKIP() << "no address space of 16 GiB is to be had";
    resident_ = peak_resident_bytes();
  }
  void TearDown() override {
    // Tables of pages count elsewhere.
    if (table_.is_there()) {
      EXPECT_LT(peak_resident_bytes(), resident_ + (std::int64_t{64} << 20));
    }
  }

  static kernels::Tensor floats(float* data, Shape shape) {
    return {data, std::move(shape), DType::f32};
  }
  static kernels::Tensor floats(std::vector<float>& data, Shape shape) {
    return floats(data.data(), std::move(shape));
  }
  static kernels::Tensor integers(std::vector<std::int32_t>& data, Shape shape) {
    return {data.data(), std::move(shape), DType::i32};
  }
  void run(const op::Op& op, const std::vector<kernels::Tensor>& tensors,
           std::string implementation = GetParam()) {
    kernels::Problem problem{op, DType::f32, {}, 2};
    for (const kernels::Tensor& tensor : tensors) problem.shapes.push_back(tensor.shape);
    std::vector<std::byte> workspace;
    kernels::Run kernel;
    if (implementation == "reference") {
      kernel = kernels::reference::prepare(problem);
    } else {
      kernel = kernels::cpu::prepare(implementation, problem);
      workspace.resize(static_cast<std::size_t>(
          kernels::cpu::target(problem.threads)
              .workspace_bytes(implementation, op, problem.shapes, problem.dtype)));
    }
    kernel(tensors, workspace);
  }
  /// The plain loops of gradients pass over every row of a table, which would make it real.
  static bool passes_over_all_rows() { return GetParam() == std::string("reference"); }
  float* row(std::int64_t index) const { return table_.as<float>() + index * columns; }
  void fill_row(std::int64_t index, float value) const {
    for (std::int64_t i = 0; i < columns; ++i) row(index)[i] = value + static_cast<float>(i % 8);
  }
  static void expect_row(const float* found, float value) {
    for (std::int64_t i = 0; i < columns; ++i)
      ASSERT_EQ(found[i], value + static_cast<float>(i % 8)) << "column " << i;
  }

  const SparseMemory table_{rows * columns * 4};
  std::int64_t resident_ = 0;
};

TEST_P(Row55, a_row_of_a_table_beyond_two_to_the_32_elements_is_looked_up) {
  std::vector<std::int32_t> tokens{static_cast<std::int32_t>(rows - 1), 0,
                                   static_cast<std::int32_t>(rows / 2 + 1)};
  for (const std::int32_t token : tokens) fill_row(token, static_cast<float>(token % 1000));
  std::vector<float> y(3 * columns, -1);
  run(op::Embedding{}, {integers(tokens, {1, 3}), floats(table_.as<float>(), {rows, columns}),
                        floats(y, {1, 3, columns})});
  for (std::size_t t = 0; t < 3; ++t)
    expect_row(y.data() + t * columns, static_cast<float>(tokens[t] % 1000));
}

TEST_P(Row55, a_gradient_is_added_to_a_row_beyond_two_to_the_32_elements) {
  if (passes_over_all_rows()) GTEST_SKIP() << "it touches all of 16 GiB";
  std::vector<std::int32_t> tokens{static_cast<std::int32_t>(rows - 1),
                                   static_cast<std::int32_t>(rows / 2 + 1)};
  for (const std::int32_t token : tokens) fill_row(token, 1);
  std::vector<float> gradient(2 * columns, 2);
  run(op::EmbeddingGradient{.rows = rows, .accumulate = true},
      {integers(tokens, {1, 2}), floats(gradient, {1, 2, columns}),
       floats(table_.as<float>(), {rows, columns})});
  for (const std::int32_t token : tokens) expect_row(row(token), 3);
}

TEST_P(Row55, a_position_beyond_two_to_the_32_elements_is_added_and_its_gradient_too) {
  const std::int64_t first = rows - 2;
  fill_row(first, 5);
  fill_row(first + 1, 7);
  std::vector<float> x(2 * columns, 1), y(2 * columns, -1);
  std::vector<std::int32_t> position{static_cast<std::int32_t>(first)};
  run(op::AddPositions{.cached = true},
      {floats(x, {1, 2, columns}), floats(table_.as<float>(), {rows, columns}),
       integers(position, {}), floats(y, {1, 2, columns})});
  expect_row(y.data(), 6);
  expect_row(y.data() + columns, 8);
  std::vector<float> cut(2 * columns, -1);
  run(op::AddPositions{.first = first},
      {floats(x, {1, 2, columns}), floats(table_.as<float>(), {rows, columns}),
       floats(cut, {1, 2, columns})});
  EXPECT_EQ(cut, y);
  if (passes_over_all_rows()) return;
  run(op::PositionsGradient{.rows = rows, .first = first, .accumulate = true},
      {floats(x, {1, 2, columns}), floats(table_.as<float>(), {rows, columns})});
  expect_row(row(first), 6);
  expect_row(row(first + 1), 8);
}

TEST_P(Row55, one_position_of_an_activation_beyond_two_to_the_32_elements_is_taken) {
  // There are two samples: the second one begins beyond 31 bits.
  const std::int64_t positions = rows / 2;
  std::vector<std::int32_t> index{static_cast<std::int32_t>(positions - 1)};
  fill_row(positions - 1, 3);
  fill_row(2 * positions - 1, 4);
  std::vector<float> y(2 * columns, -1);
  run(op::TakePosition{}, {floats(table_.as<float>(), {2, positions, columns}), integers(index, {}),
                           floats(y, {2, 1, columns})});
  expect_row(y.data(), 3);
  expect_row(y.data() + columns, 4);
}

TEST_P(Row55, attention_finds_its_cache_beyond_two_to_the_32_elements) {
  // (B, 2, P, H, D): the values of the second sample stand after three quarters of it.
  const std::int64_t heads = 4, width = 128, positions = rows * columns / (2 * 2 * heads * width);
  const auto attend = [&](std::int64_t room, float* cache) {
    std::vector<float> all;
    for (std::int32_t position = 0; position < 4; ++position) {
      std::vector<float> qkv(static_cast<std::size_t>(2 * 3 * heads * width)), y(qkv.size() / 3);
      for (std::size_t i = 0; i < qkv.size(); ++i)
        qkv[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(position) * 13) % 17) / 8 - 1;
      std::vector<std::int32_t> place{position};
      run(op::AttentionCached{room},
          {floats(qkv, {2, 1, 3, heads, width}), integers(place, {}),
           floats(cache, {2, 2, room, heads, width}), floats(y, {2, 1, heads, width})});
      all.insert(all.end(), y.begin(), y.end());
    }
    return all;
  };
  std::vector<float> small(static_cast<std::size_t>(2 * 2 * 4 * heads * width));
  EXPECT_EQ(attend(positions, table_.as<float>()), attend(4, small.data()));
}

TEST_P(Row55, digests_and_initial_values_count_elements_beyond_32_bits) {
  // A window of a tensor of 2^40 elements; no memory stands for the rest.
  const std::int64_t first = (std::int64_t{1} << 32) - 2, width = 256;
  const op::TensorWindow part{{std::int64_t{1} << 32, width}, {first, 0}};
  const RandomStream stream = random_stream("w");
  std::uint64_t seed = 7, digest = 0, expected = 0;
  std::vector<float> x(2 * width);
  run(op::InitNormal{.stream = stream, .stddev = 2, .shape = {2, width}, .part = part},
      {{&seed, {}, DType::u64}, floats(x, {2, width})});
  run(op::Digest{.stream = stream, .part = part},
      {floats(x, {2, width}), {&digest, {}, DType::u64}});
  const Random random(seed, stream);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t index = static_cast<std::uint64_t>(first * width) + i;
    EXPECT_EQ(x[i], static_cast<float>(2 * random.normal(index, 0)));
    expected += digest_term(stream.id, index, element_bits(x[i]));
  }
  EXPECT_EQ(digest, expected);
}

/// Sums of zeros but for the ends: minutes for plain loops, so these are long.
TEST_P(Row55, a_product_over_more_than_two_to_the_31_terms_has_all_of_them) {
  if (!is_long_run()) GTEST_SKIP() << "takes a while; set FOURFOLD_LONG";
  const std::int64_t terms = (std::int64_t{1} << 31) + 9;
  float* const a = table_.as<float>();
  a[0] = 2;
  a[terms - 1] = 3;
  std::vector<float> out{-1};
  run(op::Contract{.transpose_b = true},
      {floats(a, {1, terms}), floats(a, {1, terms}), floats(out, {1, 1})});
  EXPECT_EQ(out[0], 2 * 2 + 3 * 3);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Row55, testing::Values("reference", "vector"),
                         [](const auto& kernel) { return std::string(kernel.param); });

}  // namespace
}  // namespace fourfold::numerics
