// Which kernels of this CPU get a line.
#include "measure/cpu_choosing.h"

#include <gtest/gtest.h>

#include "kernels/cpu/target.h"

namespace fourfold::measure {
namespace {

kernels::Problem product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {op::Contract{}, DType::f32, {{m, k}, {k, n}, {m, n}}, 1};
}

TEST(CpuChoosing, a_product_is_cut_where_rows_keep_their_length_then_by_its_largest_factor) {
  const auto cut = [](const kernels::Problem& problem, double flops) {
    return cut_to(problem, flops).shapes;
  };
  EXPECT_EQ(cut(product(4096, 3072, 768), 4e9),
            (std::vector<Shape>{{896, 768}, {768, 3072}, {896, 3072}}));
  const kernels::Problem of_weight{
      op::Contract{.transpose_a = true}, DType::f32, {{2048, 1024}, {2048, 3072}, {1024, 3072}}, 1};
  EXPECT_EQ(cut(of_weight, 4e9), (std::vector<Shape>{{640, 1024}, {640, 3072}, {1024, 3072}}));
  EXPECT_EQ(cut(product(512, 50304, 768), 1e9),
            (std::vector<Shape>{{256, 768}, {768, 2560}, {256, 2560}}));
  EXPECT_EQ(cut(product(64, 64, 4096), 1e7),
            (std::vector<Shape>{{64, 1280}, {1280, 64}, {64, 64}}));
  const kernels::Problem small = product(64, 32, 16);
  EXPECT_EQ(cut(small, 1e9), small.shapes);
  EXPECT_EQ(cut(small, 1), small.shapes) << "one step is more than there is";
  // Rows of two dims, of which the larger one is the largest factor.
  const kernels::Problem rows{
      op::Contract{.a_rows = 2}, DType::f32, {{4, 1024, 64}, {64, 32}, {4, 1024, 32}}, 1};
  EXPECT_EQ(cut(rows, 4e6), (std::vector<Shape>{{4, 256, 64}, {64, 32}, {4, 256, 32}}));
}

TEST(CpuChoosing, what_several_kernels_compute_gets_one_line_each) {
  const Shape picture{1, 8, 8, 16}, filter{16, 3, 3, 16};
  const std::vector<kernels::Problem> problems = {
      product(32, 48, 16),
      {op::Contract{.accumulate = true}, DType::f32, {{32, 16}, {16, 48}, {32, 48}}, 1},
      {op::Convolution{.padding = 1}, DType::f32, {picture, filter, picture}, 1},
      {op::Gelu{}, DType::f32, {{4, 8}, {4, 8}}, 1}};
  const auto lines = time_kernels({}, problems, kernels::cpu::target(1), 1);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].n, 48);
  EXPECT_GT(lines[0].gflops, 0);
  EXPECT_EQ(lines[1].shapes, problems[2].shapes);
  EXPECT_TRUE(time_kernels({}, problems, kernels::cpu::target(1), 0).empty()) << "no time, no line";
  EXPECT_EQ(time_kernels(lines, problems, kernels::cpu::target(1), 0), lines) << "what is known";
}

}  // namespace
}  // namespace fourfold::measure
