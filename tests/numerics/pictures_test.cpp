// Pooling, and bytes of pictures as numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/format.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

/// |y_grad| over the windows of an element: each is counted once at most.
Arrays pooled_gradient_size(const Case& sample, const Arrays&) {
  const auto& op = sample.op.get<op::MaxPoolGradient>();
  const Shape& x = sample.reads[0].shape;
  Array sizes = sample.reads[1];
  const double windows = static_cast<double>(op.size * op.size);
  for (double& value : sizes.data) value = windows * std::abs(value);
  return apply(op::AveragePoolGradient{x[1], x[2], op.size, op.stride}, exact, {sizes}).values;
}

/// (x/255 - mean) / deviation rounds relative to the terms of its difference.
Arrays normalized_size(const Case& sample, const Arrays& outputs) {
  const auto& op = sample.op.get<op::Normalize>();
  Arrays magnitude = outputs;
  for (std::size_t i = 0; i < outputs[0].data.size(); ++i) {
    const std::size_t c = i % op.mean.size();
    magnitude[0].data[i] = (sample.reads[0].data[i] / 255 + std::abs(op.mean[c])) / op.deviation[c];
  }
  return magnitude;
}

Case normalize_case(std::int64_t channels) {
  op::Normalize op;
  for (std::int64_t c = 0; c < channels; ++c) {
    op.mean.push_back(0.4 + 0.001 * static_cast<double>(c));
    op.deviation.push_back(0.2 + 0.01 * static_cast<double>(c));
  }
  const Shape shape{2, 5, 9, channels};
  return {
      format("{} channels", channels), op, {integers(shape, "bytes", 256)}, {}, 1, normalized_size};
}

}  // namespace

std::vector<Case> picture_cases() {
  std::vector<Case> cases;
  for (const auto& [shape, size, stride] :
       {std::tuple<Shape, std::int64_t, std::int64_t>{{1, 1, 1, 1}, 1, 1},
        {{2, 8, 6, 16}, 2, 2},
        {{3, 7, 9, 5}, 2, 2},    // the last row and column are in no window
        {{2, 9, 8, 19}, 3, 2},   // windows that overlap
        {{2, 6, 5, 33}, 3, 1},   //
        {{2, 11, 10, 3}, 2, 3},  // windows with gaps
        {{9, 13, 12, 70}, 2, 2}}) {
    const op::MaxPool max{size, stride};
    const Array x = uniform(shape, "x"),
                y_grad = uniform(op::outputs(max, std::vector<Shape>{shape})[0], "y_grad");
    const auto window = static_cast<double>(size * size);
    const std::string name = format("{} by {} stride {}", to_string(shape), size, stride);
    cases.push_back({name, max, {x}, {}, 1, own_size});
    cases.push_back(
        {name, op::MaxPoolGradient{size, stride}, {x, y_grad}, {}, window, pooled_gradient_size});
    cases.push_back({name, op::AveragePool{size, stride}, {x}, {}, window});
    cases.push_back(
        {name, op::AveragePoolGradient{shape[1], shape[2], size, stride}, {y_grad}, {}, window});
  }
  for (const std::int64_t channels : {1, 3, 65}) cases.push_back(normalize_case(channels));
  return cases;
}

namespace {

/// Windows of 2 x 2 at every place of a picture of 3 x 3; its largest element is in all of them.
TEST(MaxPool, of_windows_that_overlap_is_what_one_computes_by_hand) {
  const Array x{{1, 3, 3, 1}, {1, 7, 2, 4, 9, 9, 3, 5, 8}}, y_grad{{1, 2, 2, 1}, {1, 2, 4, 8}};
  for (const Backend& backend : backends_of(op::MaxPool{})) {
    SCOPED_TRACE(to_string(backend));
    EXPECT_EQ(apply(op::MaxPool{2, 1}, backend, {x}).values[0].data,
              (std::vector<double>{9, 9, 9, 9}));
    // The first of two nines has it all.
    EXPECT_EQ(apply(op::MaxPoolGradient{2, 1}, backend, {x, y_grad}).values[0].data,
              (std::vector<double>{0, 0, 0, 0, 15, 0, 0, 0, 0}));
    EXPECT_EQ(apply(op::AveragePool{2, 1}, backend, {x}).values[0].data,
              (std::vector<double>{5.25, 6.75, 5.25, 7.75}));
    EXPECT_EQ(apply(op::AveragePoolGradient{3, 3, 2, 1}, backend, {y_grad}).values[0].data,
              (std::vector<double>{0.25, 0.75, 0.5, 1.25, 3.75, 2.5, 1, 3, 2}));
  }
}

TEST(MaxPool, takes_the_last_nan_and_else_the_first_of_equal_elements) {
  const Array x{{1, 2, 2, 3}, {NAN, 3, -1, 5, 3, -1, NAN, 1, -1, 9, 3, -1}},
      y_grad{{1, 1, 1, 3}, {1, 2, 3}};
  for (const Backend& backend : backends_of(op::MaxPool{})) {
    SCOPED_TRACE(to_string(backend));
    const std::vector<double> y = apply(op::MaxPool{}, backend, {x}).values[0].data;
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], 3);
    EXPECT_EQ(y[2], -1);
    std::vector<double> x_grad = apply(op::MaxPoolGradient{}, backend, {x, y_grad}).values[0].data;
    EXPECT_TRUE(std::isnan(std::exchange(x_grad[6], 0)));
    EXPECT_EQ(x_grad, (std::vector<double>{0, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  }
}

TEST(Normalize, gives_each_channel_its_mean_and_deviation) {
  const Array x{{1, 1, 2, 2}, {0, 255, 51, 102}};
  for (const Backend& backend : backends_of(op::Normalize{})) {
    SCOPED_TRACE(to_string(backend));
    const std::vector<double> y =
        apply(op::Normalize{{0.5, 0}, {0.25, 2}}, backend, {x}).values[0].data;
    const double tolerance = backend.dtype == DType::bf16 ? 0x1p-7 : 1e-6;
    EXPECT_EQ(y[0], -2);
    EXPECT_EQ(y[1], 0.5);
    EXPECT_NEAR(y[2], -1.2, 1.2 * tolerance);
    EXPECT_NEAR(y[3], 0.2, 0.2 * tolerance);
  }
}

}  // namespace
}  // namespace fourfold::numerics
