// Which implementation stands in a table, by a clock of the test's own.
#include "measure/product_table.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace fourfold::measure {
namespace {

kernels::Problem product(std::int64_t m, bool transpose_b = false) {
  const Shape b = transpose_b ? Shape{8, 4} : Shape{4, 8};
  return {op::Matmul{.transpose_b = transpose_b}, DType::f32, {{m, 4}, b, {m, 8}}};
}

kernels::Problem with_bias(std::int64_t m) {
  return {op::MatmulBias{}, DType::f32, {{m, 4}, {4, 8}, {8}, {m, 8}}};
}

TEST(ProductTable, the_fastest_wins_and_the_preferred_one_where_both_are_alike) {
  const auto best = [](double first, double second) {
    return fastest(product(2), {"first", "second"},
                   [&](const kernels::Problem&, const std::string& name) {
                     return name == "first" ? first : second;
                   });
  };
  EXPECT_EQ(best(1.0, 0.9).implementation, "second");
  EXPECT_EQ(best(1.0, 0.9).seconds, 0.9);
  EXPECT_EQ(best(1.0, 0.99).implementation, "first");  // a repeated measurement differs as much
  EXPECT_EQ(best(0.9, 1.0).implementation, "first");
  EXPECT_THROW(
      fastest(product(2), {}, [](const kernels::Problem&, const std::string&) { return 1.; }),
      InternalError);
}

TEST(ProductTable, has_a_line_for_each_row_layout_and_size_and_times_none_twice) {
  std::map<std::string, int> timed;
  const auto lines = product_lines(
      {product(2),
       product(2),
       product(3),
       product(2, true),
       with_bias(2),
       {op::Gelu{}, DType::f32, {{2, 8}, {2, 8}}}},
      [](const kernels::Problem& problem) {
        return std::holds_alternative<op::Matmul>(problem.op)
                   ? std::vector<std::string>{"own", "cublaslt", "cublaslt/1"}
                   : std::vector<std::string>{"own"};
      },
      [&](const kernels::Problem&, const std::string& name) {
        ++timed[name];
        return name == "cublaslt/1" ? 1e-6 : 2e-6;
      });
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].implementation, "cublaslt/1");
  EXPECT_EQ(lines[0].gflops, 0.1);  // 2 * 2 * 8 * 4 in 1 us, to tenths
  EXPECT_EQ(lines[1].m, 3);
  EXPECT_EQ(lines[2].layout, "nt");
  EXPECT_EQ(lines[3].op, "matmul_bias");
  EXPECT_EQ(lines[3].implementation, "own");
  EXPECT_EQ(timed["own"], 4);
  EXPECT_EQ(timed["cublaslt/1"], 3);
}

}  // namespace
}  // namespace fourfold::measure
