// Rules of what a sample's numbers do to its pixels, in the order of conditioning.h. Factors: b
// samples, h and the letters after it the pixels of one, c channels, q scale and shift.
#include "op/conditioning.h"
#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

namespace {

/// Two numbers for each channel of each sample of x (B, ..., C).
bool is_modulation_of(const Shape& modulation, const Shape& x) {
  return x.rank() >= 2 && modulation == Shape{x[0], 2, x.back()};
}

}  // namespace

Operands TimeEmbedding::operands() const {
  return {{"t", Role::read, Element::i32}, {"y", Role::write}};
}
Outputs TimeEmbedding::outputs(Shapes reads) const {
  if (reads[0].rank() != 1) return Mistake{"time_embedding: t is (B)"};
  if (width < 1 || steps < 1 || !(max_period > 0))
    return Mistake{"time_embedding: width, steps and the longest period are above 0"};
  return {{reads[0][0], width}};
}
FactorRule TimeEmbedding::factors(Shapes) const {
  return {{"b", "bc"}, "c", Linear::no};
}
double TimeEmbedding::flops(Shapes all) const {
  return 20 * elements(all[1]);
}
std::int64_t TimeEmbedding::integer_bound(Shapes) const {
  return steps;
}
std::vector<Example> examples_of(const TimeEmbedding&) {
  return {{TimeEmbedding{8, 40, 25, 10000}, {{3}}}, {TimeEmbedding{17, 9, 1, 100}, {{2}}}};
}

Operands ScaleShift::operands() const {
  return {{"x"}, {"modulation"}, {"y", Role::write, Element::compute, 0}};
}
Outputs ScaleShift::outputs(Shapes reads) const {
  if (!is_modulation_of(reads[1], reads[0]))
    return Mistake{"scale_shift: x is (B, ..., C), modulation (B, 2, C)"};
  return {reads[0]};
}
FactorRule ScaleShift::factors(Shapes reads) const {
  return {{picture_letters(reads[0]), "bqc", picture_letters(reads[0])}, "q", Linear::no};
}
double ScaleShift::flops(Shapes all) const {
  return 3 * elements(all[0]);
}
std::vector<Example> examples_of(const ScaleShift&) {
  return {{ScaleShift{}, {usual_picture, {2, 2, 3}}}, {ScaleShift{}, {{1, 9, 37}, {1, 2, 37}}}};
}

Operands ScaleShiftGradient::operands() const {
  return {{"modulation"}, {"y_grad"}, {"x_grad", Role::write, Element::compute, 1}};
}
Outputs ScaleShiftGradient::outputs(Shapes reads) const {
  if (!is_modulation_of(reads[0], reads[1]))
    return Mistake{"scale_shift_gradient: y_grad is (B, ..., C), modulation (B, 2, C)"};
  return {reads[1]};
}
FactorRule ScaleShiftGradient::factors(Shapes reads) const {
  return {{"bqc", picture_letters(reads[1]), picture_letters(reads[1])}, "q", Linear::no};
}
double ScaleShiftGradient::flops(Shapes all) const {
  return 2 * elements(all[1]);
}
std::vector<Example> examples_of(const ScaleShiftGradient&) {
  return {{ScaleShiftGradient{}, {{2, 2, 3}, usual_picture}},
          {ScaleShiftGradient{}, {{1, 2, 37}, {1, 9, 37}}}};
}

Operands ScaleShiftSums::operands() const {
  return {{"x"}, {"y_grad"}, {"modulation_grad", Role::write}};
}
Outputs ScaleShiftSums::outputs(Shapes reads) const {
  const Shape& x = reads[0];
  if (x.rank() < 2 || reads[1] != x)
    return Mistake{"scale_shift_sums: x is (B, ..., C), as y_grad is"};
  return {{x[0], 2, x.back()}};
}
FactorRule ScaleShiftSums::factors(Shapes reads) const {
  return {{picture_letters(reads[0]), picture_letters(reads[0]), "bqc"}, "q", Linear::no};
}
double ScaleShiftSums::flops(Shapes all) const {
  return 3 * elements(all[0]);
}
std::vector<Example> examples_of(const ScaleShiftSums&) {
  return {{ScaleShiftSums{}, {usual_picture, usual_picture}},
          {ScaleShiftSums{}, {{1, 9, 37}, {1, 9, 37}}}};
}

Operands AddToPixels::operands() const {
  return {{"x"}, {"term"}, {"y", Role::write, Element::compute, 0}};
}
Outputs AddToPixels::outputs(Shapes reads) const {
  const Shape& x = reads[0];
  if (x.rank() < 2 || reads[1] != Shape{x[0], x.back()})
    return Mistake{"add_to_pixels: x is (B, ..., C), term (B, C)"};
  return {x};
}
FactorRule AddToPixels::factors(Shapes reads) const {
  return {{picture_letters(reads[0]), "bc", picture_letters(reads[0])}, "", Linear::all};
}
double AddToPixels::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const AddToPixels&) {
  return {{AddToPixels{}, {usual_picture, {2, 3}}}, {AddToPixels{}, {{1, 9, 37}, {1, 37}}}};
}

Operands PixelSums::operands() const {
  return {{"y_grad"}, {"term_grad", Role::write}};
}
Outputs PixelSums::outputs(Shapes reads) const {
  const Shape& y_grad = reads[0];
  if (y_grad.rank() < 2) return Mistake{"pixel_sums: y_grad is (B, ..., C)"};
  return {{y_grad[0], y_grad.back()}};
}
FactorRule PixelSums::factors(Shapes reads) const {
  return {{picture_letters(reads[0]), "bc"}, "", Linear::all};
}
double PixelSums::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const PixelSums&) {
  return {{PixelSums{}, {usual_picture}}, {PixelSums{}, {{1, 9, 37}}}};
}

}  // namespace fourfold::op
