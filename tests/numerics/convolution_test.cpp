// Convolutions and their gradients: kernels, strides and padding of all kinds, channels that fill
// no vector, pictures smaller than a kernel.
#include <gtest/gtest.h>

#include "base/format.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

/// A picture, the outputs of its convolution, and how the kernel goes over it.
struct ConvolutionSizes {
  std::int64_t samples, height, width, channels, outputs, kernel_height, kernel_width, stride,
      padding;

  Shape x() const { return {samples, height, width, channels}; }
  Shape weight() const { return {outputs, kernel_height, kernel_width, channels}; }
  Shape y() const {
    return op::outputs(op::Convolution{stride, padding}, std::vector<Shape>{x(), weight()})[0];
  }
};

/// Rounding is that of sums of products, as a contract's: as many terms as the kernel has elements,
/// or as it has outputs, or as there are places.
void append_cases(const ConvolutionSizes& s, std::vector<Case>& cases) {
  const auto taps = static_cast<double>(s.kernel_height * s.kernel_width);
  const std::string name =
      format("{}x{}x{}x{} to {} by {}x{} stride {} padding {}", s.samples, s.height, s.width,
             s.channels, s.outputs, s.kernel_height, s.kernel_width, s.stride, s.padding);
  const Array x = uniform(s.x(), "x"), weight = uniform(s.weight(), "weight"),
              y_grad = uniform(s.y(), "y_grad");
  cases.push_back({name,
                   op::Convolution{s.stride, s.padding},
                   {x, weight},
                   {},
                   taps * static_cast<double>(s.channels)});
  cases.push_back({name,
                   op::ConvolutionGradient{s.height, s.width, s.stride, s.padding},
                   {y_grad, weight},
                   {},
                   taps * static_cast<double>(s.outputs)});
  for (const bool accumulate : {false, true}) {
    Case gradient{name + (accumulate ? " adding" : ""),
                  op::ConvolutionWeightGradient{s.kernel_height, s.kernel_width, s.stride,
                                                s.padding, accumulate, accumulate},
                  {x, y_grad},
                  {},
                  static_cast<double>(s.y().elements(0, 3))};
    if (accumulate) gradient.updates = {uniform(s.weight(), "old")};
    cases.push_back(std::move(gradient));
  }
}

}  // namespace

std::vector<Case> convolution_cases() {
  std::vector<Case> cases;
  for (const ConvolutionSizes& sizes :
       {ConvolutionSizes{1, 1, 1, 1, 1, 1, 1, 1, 0},     //
        ConvolutionSizes{2, 8, 8, 16, 16, 3, 3, 1, 1},   // what libraries like
        ConvolutionSizes{3, 9, 7, 3, 20, 3, 3, 1, 1},    // a first layer
        ConvolutionSizes{2, 7, 9, 13, 5, 1, 1, 1, 0},    //
        ConvolutionSizes{2, 7, 9, 5, 13, 1, 1, 2, 0},    // a shortcut
        ConvolutionSizes{2, 9, 8, 7, 9, 3, 3, 2, 1},     //
        ConvolutionSizes{1, 11, 10, 6, 17, 5, 5, 2, 2},  //
        ConvolutionSizes{2, 6, 6, 4, 3, 5, 5, 1, 0},     //
        ConvolutionSizes{2, 1, 1, 19, 33, 3, 3, 1, 1},   // seen in the middle alone
        ConvolutionSizes{2, 2, 3, 8, 8, 1, 1, 1, 2},     // more padding than kernel
        ConvolutionSizes{1, 7, 5, 2, 3, 2, 3, 3, 1},     // places without taps
        ConvolutionSizes{2, 5, 21, 24, 40, 1, 5, 1, 1},
        ConvolutionSizes{1, 5, 6, 37, 10, 3, 3, 1, 1},
        ConvolutionSizes{2, 9, 8, 8, 24, 3, 3, 2, 1},    // whole packs of 16 bytes at stride 2
        ConvolutionSizes{2, 17, 16, 8, 16, 3, 3, 1, 1},  // and over places in several stretches
        ConvolutionSizes{1, 3, 4, 72, 8, 3, 3, 1, 1},    // and over taps that end within a tile
        ConvolutionSizes{3, 14, 13, 9, 140, 3, 3, 1, 1}})
    append_cases(sizes, cases);
  return cases;
}

namespace {

std::vector<Backend> computing(const op::Op& op) {
  std::vector<Backend> backends = backends_of(op);
  backends.push_back(exact);
  return backends;
}

/// 1 ... 9 in a square, a kernel of 2 x 2 that weighs its corners 1, 10, 100 and 1000.
TEST(Convolution, of_a_square_is_what_one_computes_by_hand) {
  const Array x{{1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9}},
      weight{{1, 2, 2, 1}, {1, 10, 100, 1000}};
  for (const Backend& backend : computing(op::Convolution{})) {
    if (backend.dtype == DType::bf16) continue;
    SCOPED_TRACE(to_string(backend));
    EXPECT_EQ(apply(op::Convolution{}, backend, {x, weight}).values[0].data,
              (std::vector<double>{5421, 6532, 8754, 9865}));
    EXPECT_EQ(apply(op::Convolution{2, 1}, backend, {x, weight}).values[0].data,
              (std::vector<double>{1000, 3200, 7040, 9865}));
  }
}

TEST(Convolution, gradients_of_a_square_are_what_one_computes_by_hand) {
  const Array x{{1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9}},
      weight{{1, 2, 2, 1}, {1, 10, 100, 1000}}, y_grad{{1, 2, 2, 1}, {1, 2, 3, 4}};
  for (const Backend& backend : computing(op::ConvolutionGradient{})) {
    if (backend.dtype == DType::bf16) continue;
    SCOPED_TRACE(to_string(backend));
    EXPECT_EQ(apply(op::ConvolutionGradient{3, 3}, backend, {y_grad, weight}).values[0].data,
              (std::vector<double>{1, 12, 20, 103, 1234, 2040, 300, 3400, 4000}));
    // At stride 2 with padding each element of x meets one of the kernel.
    EXPECT_EQ(apply(op::ConvolutionGradient{3, 3, 2, 1}, backend, {y_grad, weight}).values[0].data,
              (std::vector<double>{1000, 200, 2000, 30, 4, 40, 3000, 400, 4000}));
    EXPECT_EQ(apply(op::ConvolutionWeightGradient{2, 2, 1, 0, true}, backend, {x, y_grad},
                    {{{1, 2, 2, 1}, {100, 200, 300, 400}}})
                  .values[0]
                  .data,
              (std::vector<double>{137, 247, 367, 477}));
  }
}

/// Results of own loops, whose sums have one thread each.
TEST(Convolution, by_own_loops_has_the_same_bits_on_any_number_of_threads) {
  for (const Case& sample : convolution_cases())
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const auto on = [&](int threads) {
        return apply(sample.op, {"vector", dtype, threads}, sample.reads, sample.updates).bytes;
      };
      EXPECT_EQ(on(1), on(2)) << sample.name;
      EXPECT_EQ(on(1), on(5)) << sample.name;
    }
}

TEST(Convolution, does_not_hide_a_nan_and_spreads_it_no_further_than_its_kernel) {
  Array x = filled({1, 5, 5, 2}, 1);
  x.data[2 * (2 * 5 + 2)] = NAN;
  for (const Backend& backend : computing(op::Convolution{})) {
    const Array y = apply(op::Convolution{1, 1}, backend, {x, filled({3, 3, 3, 2}, 0)}).values[0];
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      const std::size_t row = i / 15, column = i / 3 % 5;
      const bool is_near = row >= 1 && row <= 3 && column >= 1 && column <= 3;
      // By AMX, oneDNN multiplies neighbours too, by zeros.
      if (backend.implementation == "onednn" && backend.dtype == DType::bf16 && !is_near) continue;
      EXPECT_EQ(std::isnan(y.data[i]), is_near) << to_string(backend) << " element " << i;
    }
  }
}

}  // namespace
}  // namespace fourfold::numerics
