// Rules of convolutions, pooling and bytes of pictures, in the order of pictures.h. Factors: b
// samples, h and w of what is read, p and q of what is given, i and j of a kernel, c and o
// channels.
#include <cmath>

#include "base/format.h"
#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

namespace {

/// How many places a kernel has along a dim; 0 where it fits nowhere or a number makes no sense.
std::int64_t places_along(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                          std::int64_t padding) {
  std::int64_t both_sides = 0, padded = 0;
  if (size < 1 || kernel < 1 || stride < 1 || padding < 0 ||
      __builtin_mul_overflow(padding, 2, &both_sides) ||
      __builtin_add_overflow(size, both_sides, &padded) || kernel > padded)
    return 0;
  return (padded - kernel) / stride + 1;
}

/// What a convolution or a pooling gives for a picture: (B, P, Q, channels).
Outputs slid_over(std::string_view name, const Shape& picture, std::int64_t kernel_height,
                  std::int64_t kernel_width, std::int64_t stride, std::int64_t padding,
                  std::int64_t channels) {
  const std::int64_t rows = places_along(picture[1], kernel_height, stride, padding),
                     columns = places_along(picture[2], kernel_width, stride, padding);
  if (rows == 0 || columns == 0)
    return Mistake{
        format("{}: a kernel of {} x {} elements and a stride above 0 fit into a picture "
               "of {} x {}, padding of at least 0 around it; here the stride is {}, the "
               "padding {}",
               name, kernel_height, kernel_width, picture[1], picture[2], stride, padding)};
  return {{picture[0], rows, columns, channels}};
}

/// True if `given` is what slides over a picture of these sizes give.
template <class... Slide>
bool gives(const Shape& given, const Slide&... slide) {
  const Outputs made = slid_over("", slide...);
  return made.mistake() == nullptr && made.shapes()[0] == given;
}

/// Multiply-adds of a kernel at every place, as flops.
double kernel_flops(const Shape& y, const Shape& weight) {
  return 2 * elements(y) * elements(weight) /
         static_cast<double>(std::max<std::int64_t>(weight[0], 1));
}

constexpr const char* whole_of_convolution = "hwpqij";
constexpr const char* whole_of_pooling = "hwpq";

}  // namespace

// --- convolution

Operands Convolution::operands() const {
  return {{"x"}, {"weight"}, {"y", Role::write}};
}
Outputs Convolution::outputs(Shapes reads) const {
  const Shape &x = reads[0], &weight = reads[1];
  if (x.rank() != 4 || weight.rank() != 4 || x[3] != weight[3])
    return Mistake{"convolution: x is (B, H, W, C), weight (O, kernel height, kernel width, C)"};
  return slid_over(name, x, weight[1], weight[2], stride, padding, weight[0]);
}
FactorRule Convolution::factors(Shapes) const {
  return {{"bhwc", "oijc", "bpqo"}, whole_of_convolution, Linear::one};
}
double Convolution::flops(Shapes all) const {
  return kernel_flops(all[2], all[1]);
}
std::vector<Example> examples_of(const Convolution&) {
  return {{Convolution{1, 1}, {{2, 4, 3, 3}, {4, 3, 3, 3}}},
          {Convolution{2, 2}, {{1, 5, 6, 2}, {3, 5, 3, 2}}},
          {Convolution{2, 0}, {{2, 1, 5, 9}, {1, 1, 2, 9}}},
          {Convolution{1, 1}, {{3, 2, 2, 8}, {8, 1, 1, 8}}}};
}

Operands ConvolutionGradient::operands() const {
  return {{"y_grad"}, {"weight"}, {"x_grad", Role::write}};
}
Outputs ConvolutionGradient::outputs(Shapes reads) const {
  const Shape &y_grad = reads[0], &weight = reads[1];
  if (y_grad.rank() != 4 || weight.rank() != 4 || y_grad[3] != weight[0])
    return Mistake{
        "convolution_gradient: y_grad is (B, P, Q, O), weight (O, kernel height, kernel width, C)"};
  const Shape x{y_grad[0], height, width, weight[3]};
  if (!gives(y_grad, x, weight[1], weight[2], stride, padding, weight[0]))
    return Mistake{"convolution_gradient: y_grad has the shape that the convolution of x gives"};
  return {x};
}
FactorRule ConvolutionGradient::factors(Shapes) const {
  return {{"bpqo", "oijc", "bhwc"}, whole_of_convolution, Linear::one};
}
double ConvolutionGradient::flops(Shapes all) const {
  return kernel_flops(all[0], all[1]);
}
std::vector<Example> examples_of(const ConvolutionGradient&) {
  return {{ConvolutionGradient{4, 3, 1, 1}, {{2, 4, 3, 4}, {4, 3, 3, 3}}},
          {ConvolutionGradient{6, 6, 2, 2}, {{1, 3, 4, 3}, {3, 5, 3, 2}}},
          {ConvolutionGradient{1, 6, 2, 0}, {{2, 1, 3, 1}, {1, 1, 2, 9}}},
          {ConvolutionGradient{2, 2, 1, 1}, {{3, 4, 4, 8}, {8, 1, 1, 8}}}};
}

Operands ConvolutionWeightGradient::operands() const {
  return {{"x"},
          {"y_grad"},
          {"weight_grad", write_or_update(accumulate),
           unrounded ? Element::accumulate : Element::compute}};
}
Outputs ConvolutionWeightGradient::outputs(Shapes reads) const {
  const Shape &x = reads[0], &y_grad = reads[1];
  if (x.rank() != 4 || y_grad.rank() != 4 ||
      !gives(y_grad, x, kernel_height, kernel_width, stride, padding, y_grad[3]))
    return Mistake{
        "convolution_weight_gradient: x is (B, H, W, C), y_grad what the convolution of x gives"};
  return {{y_grad[3], kernel_height, kernel_width, x[3]}};
}
FactorRule ConvolutionWeightGradient::factors(Shapes) const {
  return {{"bhwc", "bpqo", "oijc"}, whole_of_convolution, Linear::one};
}
double ConvolutionWeightGradient::flops(Shapes all) const {
  return kernel_flops(all[1], all[2]);
}
std::vector<Example> examples_of(const ConvolutionWeightGradient&) {
  return {{ConvolutionWeightGradient{3, 3, 1, 1, true, true}, {{2, 4, 3, 3}, {2, 4, 3, 4}}},
          {ConvolutionWeightGradient{5, 3, 2, 2, false, true}, {{1, 6, 6, 2}, {1, 3, 4, 3}}},
          {ConvolutionWeightGradient{1, 2, 2, 0, true, false}, {{2, 1, 6, 9}, {2, 1, 3, 1}}},
          {ConvolutionWeightGradient{1, 1, 1, 1}, {{3, 2, 2, 8}, {3, 4, 4, 8}}}};
}

// --- pooling

namespace {
Mistake not_pooled(std::string_view name) {
  return {format("{}: x is (B, H, W, C), y_grad what pooling of x gives", name)};
}
}  // namespace

Operands MaxPool::operands() const {
  return {{"x"}, {"y", Role::write}};
}
Outputs MaxPool::outputs(Shapes reads) const {
  if (reads[0].rank() != 4) return Mistake{"max_pool: x is (B, H, W, C)"};
  return slid_over(name, reads[0], size, size, stride, 0, reads[0][3]);
}
FactorRule MaxPool::factors(Shapes) const {
  return {{"bhwc", "bpqc"}, whole_of_pooling, Linear::no};
}
double MaxPool::flops(Shapes all) const {
  return elements(all[1]) * static_cast<double>(size) * static_cast<double>(size);
}
// With what tests draw for these shapes, no window has two largest elements that are nearly equal:
// there a maximum has no derivative.
std::vector<Example> examples_of(const MaxPool&) {
  return {{MaxPool{}, {{2, 4, 5, 3}}},
          {MaxPool{3, 2}, {{1, 5, 7, 9}}},
          {MaxPool{2, 3}, {usual_picture}}};
}

Operands MaxPoolGradient::operands() const {
  return {{"x"}, {"y_grad"}, {"x_grad", Role::write}};
}
Outputs MaxPoolGradient::outputs(Shapes reads) const {
  const Shape &x = reads[0], &y_grad = reads[1];
  if (x.rank() != 4 || !gives(y_grad, x, size, size, stride, 0, x[3])) return not_pooled(name);
  return {x};
}
FactorRule MaxPoolGradient::factors(Shapes) const {
  return {{"bhwc", "bpqc", "bhwc"}, whole_of_pooling, Linear::no};
}
double MaxPoolGradient::flops(Shapes all) const {
  return elements(all[1]) * static_cast<double>(size) * static_cast<double>(size);
}
std::vector<Example> examples_of(const MaxPoolGradient&) {
  return {{MaxPoolGradient{}, {{2, 4, 5, 3}, {2, 2, 2, 3}}},
          {MaxPoolGradient{3, 2}, {{1, 5, 7, 9}, {1, 2, 3, 9}}},
          {MaxPoolGradient{2, 3}, {usual_picture, {2, 2, 3, 3}}}};
}

Operands AveragePool::operands() const {
  return {{"x"}, {"y", Role::write}};
}
Outputs AveragePool::outputs(Shapes reads) const {
  if (reads[0].rank() != 4) return Mistake{"average_pool: x is (B, H, W, C)"};
  return slid_over(name, reads[0], size, size, stride, 0, reads[0][3]);
}
FactorRule AveragePool::factors(Shapes) const {
  return {{"bhwc", "bpqc"}, whole_of_pooling, Linear::all};
}
double AveragePool::flops(Shapes all) const {
  return elements(all[1]) * static_cast<double>(size) * static_cast<double>(size);
}
std::vector<Example> examples_of(const AveragePool&) {
  return {{AveragePool{}, {{2, 4, 5, 3}}},
          {AveragePool{3, 2}, {{1, 5, 7, 9}}},
          {AveragePool{2, 3}, {usual_picture}}};
}

Operands AveragePoolGradient::operands() const {
  return {{"y_grad"}, {"x_grad", Role::write}};
}
Outputs AveragePoolGradient::outputs(Shapes reads) const {
  const Shape& y_grad = reads[0];
  if (y_grad.rank() != 4) return not_pooled(name);
  const Shape x{y_grad[0], height, width, y_grad[3]};
  if (!gives(y_grad, x, size, size, stride, 0, x[3])) return not_pooled(name);
  return {x};
}
FactorRule AveragePoolGradient::factors(Shapes) const {
  return {{"bpqc", "bhwc"}, whole_of_pooling, Linear::all};
}
double AveragePoolGradient::flops(Shapes all) const {
  return elements(all[0]) * static_cast<double>(size) * static_cast<double>(size);
}
std::vector<Example> examples_of(const AveragePoolGradient&) {
  return {{AveragePoolGradient{4, 5}, {{2, 2, 2, 3}}},
          {AveragePoolGradient{5, 7, 3, 2}, {{1, 2, 3, 9}}},
          {AveragePoolGradient{6, 7, 2, 3}, {{2, 2, 2, 3}}}};
}

// --- larger pictures

Operands Upsample::operands() const {
  return {{"x"}, {"y", Role::write}};
}
Outputs Upsample::outputs(Shapes reads) const {
  const Shape& x = reads[0];
  std::int64_t height = 0, width = 0;
  if (x.rank() != 4 || factor < 1 || __builtin_mul_overflow(x[1], factor, &height) ||
      __builtin_mul_overflow(x[2], factor, &width))
    return Mistake{"upsample: x is (B, H, W, C), the factor at least 1"};
  return {{x[0], height, width, x[3]}};
}
FactorRule Upsample::factors(Shapes) const {
  return {{"bhwc", "bpqc"}, whole_of_pooling, Linear::all};
}
double Upsample::flops(Shapes) const {
  return 0;
}
std::vector<Example> examples_of(const Upsample&) {
  return {{Upsample{}, {usual_picture}}, {Upsample{3}, {{1, 2, 3, 17}}}};
}

Operands UpsampleGradient::operands() const {
  return {{"y_grad"}, {"x_grad", Role::write}};
}
Outputs UpsampleGradient::outputs(Shapes reads) const {
  const Shape& y_grad = reads[0];
  if (y_grad.rank() != 4 || factor < 1 || y_grad[1] % factor != 0 || y_grad[2] % factor != 0)
    return Mistake{
        "upsample_gradient: y_grad is (B, H, W, C), the factor at least 1 and one of H and W"};
  return {{y_grad[0], y_grad[1] / factor, y_grad[2] / factor, y_grad[3]}};
}
FactorRule UpsampleGradient::factors(Shapes) const {
  return {{"bpqc", "bhwc"}, whole_of_pooling, Linear::all};
}
double UpsampleGradient::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const UpsampleGradient&) {
  return {{UpsampleGradient{}, {{2, 4, 6, 3}}}, {UpsampleGradient{3}, {{1, 6, 9, 17}}}};
}

// --- bytes

Operands Normalize::operands() const {
  return {{"x", Role::read, Element::u8}, {"y", Role::write}};
}
Outputs Normalize::outputs(Shapes reads) const {
  const Shape& x = reads[0];
  const auto fits = [&](const Numbers& numbers) {
    return x.rank() == 4 && static_cast<std::int64_t>(numbers.size()) == x[3];
  };
  if (!fits(mean) || !fits(deviation))
    return Mistake{"normalize: x is (B, H, W, C), with a mean and a deviation for each channel"};
  for (const double size : deviation)
    if (!(size > 0)) return Mistake{"normalize: every deviation is above 0"};
  return {x};
}
FactorRule Normalize::factors(Shapes) const {
  return {{"bhwc", "bhwc"}, "c", Linear::no};
}
double Normalize::flops(Shapes all) const {
  return 3 * elements(all[0]);
}
std::int64_t Normalize::integer_bound(Shapes) const {
  return 256;
}
std::vector<Example> examples_of(const Normalize&) {
  return {{Normalize{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}}, {{2, 3, 5, 3}}},
          {Normalize{{1.0 / 3}, {2.0 / 3}}, {{1, 7, 6, 1}}}};
}

}  // namespace fourfold::op
