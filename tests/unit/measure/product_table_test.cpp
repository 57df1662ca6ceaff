// Which implementation stands in a table, by a clock of the test's own.
#include "measure/product_table.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "support/chains.h"

namespace fourfold::measure {
namespace {

kernels::Problem product(std::int64_t m, bool transpose_b = false) {
  const Shape b = transpose_b ? Shape{8, 4} : Shape{4, 8};
  return {op::Contract{.transpose_b = transpose_b}, DType::f32, {{m, 4}, b, {m, 8}}};
}

kernels::Problem with_bias(std::int64_t m) {
  return {op::product_and_bias(), DType::f32, {{m, 4}, {4, 8}, {8}, {m, 8}}};
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
  kernels::Problem adding = product(2);
  adding.op.get<op::Contract>().accumulate = true;
  const Choosing choosing{.implementations =
                              [](const kernels::Problem& problem) {
                                return problem.op.is<op::Contract>()
                                           ? std::vector<std::string>{"own", "cublaslt",
                                                                      "cublaslt/1"}
                                           : std::vector<std::string>{"own"};
                              },
                          .time =
                              [&](const kernels::Problem&, const std::string& name) {
                                ++timed[name];
                                return name == "cublaslt/1" ? 1e-6 : 2e-6;
                              },
                          .workspace_bytes =
                              [](const kernels::Problem& problem, const std::string& name) {
                                const auto* contract = problem.op.get_if<op::Contract>();
                                return name == "own" ? 0 : contract->accumulate ? 300 : 100;
                              }};
  const auto lines = table_lines({product(2),
                                  product(2),
                                  product(3),
                                  product(2, true),
                                  adding,
                                  with_bias(2),
                                  {op::Gelu{}, DType::f32, {{2, 8}, {2, 8}}}},
                                 choosing);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].implementation, "cublaslt/1");
  EXPECT_EQ(lines[0].gflops, 0.1);  // 2 * 2 * 8 * 4 in 1 us, to tenths
  EXPECT_EQ(lines[0].workspace_bytes, 300) << "what any product of the line wants";
  EXPECT_EQ(lines[1].m, 3);
  EXPECT_EQ(lines[1].workspace_bytes, 100);
  EXPECT_EQ(lines[2].layout, "nt");
  EXPECT_EQ(lines[3].op, "contract+add_bias");
  EXPECT_EQ(lines[3].implementation, "own");
  EXPECT_EQ(timed["own"], 4);
  EXPECT_EQ(timed["cublaslt/1"], 3);
}

TEST(ProductTable, takes_known_lines_with_more_scratch_and_begins_no_new_one_when_time_is_over) {
  int timed = 0;
  const Choosing choosing{
      .implementations = [](const kernels::Problem&) { return std::vector<std::string>{"own"}; },
      .time =
          [&](const kernels::Problem&, const std::string&) {
            ++timed;
            return 1e-6;
          },
      .workspace_bytes =
          [](const kernels::Problem& problem, const std::string& name) {
            return problem.op.get<op::Contract>().accumulate && name == "cublaslt/7" ? 300 : 100;
          }};
  kernels::Problem adding = product(2);
  adding.op.get<op::Contract>().accumulate = true;
  auto known = table_lines({product(2)}, choosing);
  ASSERT_EQ(known.size(), 1U);
  known[0].implementation = "cublaslt/7";
  timed = 0;
  const auto lines = table_lines_until([&] { return timed > 0; }, known,
                                       {product(2), adding, product(3), product(4)}, choosing);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].implementation, "cublaslt/7");
  EXPECT_EQ(lines[0].workspace_bytes, 300);
  EXPECT_EQ(lines[1].m, 3);
  EXPECT_EQ(timed, 1);
}

TEST(ProductTable, has_the_scratch_of_a_convolution_and_only_what_the_target_may_have) {
  const Shape x{2, 8, 8, 16}, weight{16, 3, 3, 16};
  const kernels::Problem problem{op::Convolution{1, 1}, DType::bf16, {x, weight, x}};
  const Choosing choosing{
      .implementations =
          [](const kernels::Problem&) {
            return std::vector<std::string>{"cudnn_fast", "cudnn", "own"};
          },
      .time = [](const kernels::Problem&,
                 const std::string& name) { return name == "cudnn_fast" ? 1. : 2.; },
      .workspace_bytes = [](const kernels::Problem&,
                            const std::string& name) { return name == "cudnn" ? 100 : 7; }};
  const auto line_for = [&](const machine::Target& target) {
    return table_lines({problem}, allowed_by(target, choosing)).at(0);
  };
  EXPECT_EQ(line_for({}).implementation, "cudnn_fast");
  EXPECT_EQ(line_for({}).workspace_bytes, 7);
  machine::Target repeatable;
  repeatable.fits = [](const std::string& name, const op::Op&, op::Shapes, DType) {
    return name != "cudnn_fast";
  };
  EXPECT_EQ(line_for(repeatable).implementation, "cudnn");
  EXPECT_EQ(line_for(repeatable).workspace_bytes, 100);
}

TEST(ProductTable, has_a_line_without_sizes_for_attention_and_one_for_its_gradient) {
  const auto attention = [](std::int64_t time) {
    return kernels::Problem{
        op::Attention{}, DType::bf16, {{2, time, 3, 4, 64}, {2, time, 4, 64}, {2, 4, time}}};
  };
  const kernels::Problem forward = attention(5);
  const kernels::Problem gradient{op::AttentionGradient{},
                                  DType::bf16,
                                  {forward.shapes[0], forward.shapes[1], forward.shapes[2],
                                   forward.shapes[1], forward.shapes[0]}};
  const Choosing choosing{
      .implementations =
          [](const kernels::Problem&) { return std::vector<std::string>{"cudnn", "own"}; },
      .time =
          [](const kernels::Problem& problem, const std::string& name) {
            const bool is_forward = problem.op.is<op::Attention>();
            return is_forward == (name == "own") ? 1. : 2.;
          },
      .workspace_bytes = [](const kernels::Problem&, const std::string&) { return 100; }};
  const auto lines = table_lines({forward, attention(6), gradient}, choosing);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].op, "attention");
  EXPECT_EQ(lines[0].implementation, "own");
  EXPECT_EQ(lines[0].workspace_bytes, std::nullopt);
  EXPECT_EQ(lines[1].op, "attention_gradient");
  EXPECT_EQ(lines[1].implementation, "cudnn");
}

}  // namespace
}  // namespace fourfold::measure
