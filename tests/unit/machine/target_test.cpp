#include "machine/target.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/error.h"
#include "support/chains.h"

namespace fourfold::machine {
namespace {

Target target() {
  Target t{.backend = "cpu", .threads = 1, .choices = {}, .workspace_bytes = {}};
  t.choices = {{.op = "contract",
                .dtype = DType::f32,
                .layout = "nt",
                .max_n = 8,
                .implementation = "small"},
               {.op = "contract", .dtype = std::nullopt, .implementation = "large"},
               {.op = "gelu", .dtype = std::nullopt, .implementation = "vector"}};
  return t;
}

TEST(Choose, the_first_line_that_fits_layout_dtype_and_size_decides) {
  const op::Op nt = op::Contract{.transpose_b = true};
  const std::vector<Shape> small = {{4, 5}, {8, 5}, {4, 8}}, wide = {{4, 5}, {9, 5}, {4, 9}};
  EXPECT_EQ(choose(target(), nt, small, DType::f32), "small");
  EXPECT_EQ(choose(target(), nt, wide, DType::f32), "large");
  EXPECT_EQ(choose(target(), nt, small, DType::f64), "large");
  const std::vector<Shape> nn = {{4, 5}, {5, 8}, {4, 8}};
  EXPECT_EQ(choose(target(), op::Contract{}, nn, DType::f32), "large");
}

TEST(Choose, an_op_without_a_line_is_a_bug) {
  const std::vector<Shape> shapes = {{4}, {4}, {4}};
  EXPECT_THROW((void)choose(target(), op::Add{}, shapes, DType::f32), InternalError);
}

TEST(Choose, a_line_whose_implementation_does_not_fit_is_passed_over) {
  Target t = target();
  t.fits = [](const std::string& implementation, const op::Op&, op::Shapes all, DType) {
    return implementation != "small" || all[0][0] < 4;
  };
  const op::Op nt = op::Contract{.transpose_b = true};
  const std::vector<Shape> four = {{4, 5}, {8, 5}, {4, 8}}, three = {{3, 5}, {8, 5}, {3, 8}};
  EXPECT_EQ(choose(t, nt, four, DType::f32), "large");
  EXPECT_EQ(choose(t, nt, three, DType::f32), "small");
}

TEST(Choose, a_row_with_a_product_has_its_sizes_and_not_its_lines) {
  const std::vector<Shape> shapes = {{2, 3, 4}, {5, 4}, {5}, {2, 3, 5}};
  const op::Op row = op::product_and_bias({2, 1, false, true});
  const ProductSizes sizes = product_sizes(row, shapes);
  EXPECT_EQ(sizes.layout, "nt");
  EXPECT_EQ(std::tuple(sizes.m, sizes.n, sizes.k), std::tuple(6, 5, 4));
  EXPECT_THROW((void)choose(target(), row, shapes, DType::f32), InternalError);
}

}  // namespace
}  // namespace fourfold::machine
