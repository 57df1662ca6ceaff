// Rules of layer norm, whole and in parts, in the order of ops.h.
#include <algorithm>

#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {
namespace {

/// The gradient of x may lie on that of y, operand 4, where both have one type.
Operand x_gradient(bool wide) {
  Operand made{"x_grad", Role::write, wide_if(wide)};
  if (!wide) made.may_alias = 4;
  return made;
}

}  // namespace

Operands LayerNorm::operands() const {
  Operands list = {{"x", Role::read, wide_if(wide)}, {"gain"}};
  if (bias) list.push_back({"bias"});
  list.push_back({"y", Role::write, Element::compute, std::nullopt});
  list.push_back({"mean", Role::write, Element::accumulate});
  list.push_back({"rstd", Role::write, Element::accumulate});
  return list;
}
Outputs LayerNorm::outputs(Shapes reads) const {
  if (reads[0].rank() == 0 || reads[1] != Shape{last(reads[0])})
    return Mistake{"layer_norm: gain has the size of the last dim of x"};
  return {reads[0], without_last(reads[0]), without_last(reads[0])};
}
FactorRule LayerNorm::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank() - 1);
  FactorRule rule{{rows + "z", "z"}, "z", Linear::no};
  if (bias) rule.operands.emplace_back("z");
  rule.operands.insert(rule.operands.end(), {rows + "z", rows, rows});
  rule.cut_form = "z";
  return rule;
}
CutForm LayerNorm::cut_form(Shapes reads, std::int64_t chunks) const {
  const std::size_t moments = operands().size();
  CutForm form{{{LayerNormMoments{chunks, wide}, {0, moments}},
                {LayerNormApply{epsilon, bias, last(reads[0]), wide}, {0, moments}}},
               {"moments"}};
  for (std::size_t operand = 1; operand < moments; ++operand)
    form.rows[1].operands.push_back(operand);
  return form;
}
double LayerNorm::flops(Shapes all) const {
  return 8 * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNorm&) {
  return {{LayerNorm{1e-6, false}, {usual, {4}}},
          {LayerNorm{}, {{2, 3, 7}, {7}, {7}}},
          {LayerNorm{.wide = true}, {usual, {4}, {4}}}};
}

Operands LayerNormGradient::operands() const {
  return {{"x", Role::read, wide_if(wide)},
          {"gain"},
          {"mean", Role::read, Element::accumulate},
          {"rstd", Role::read, Element::accumulate},
          {"y_grad"},
          x_gradient(wide)};
}
Outputs LayerNormGradient::outputs(Shapes reads) const {
  if (reads[0] != reads[4] || !are_rows_of(reads[2], reads[0]))
    return Mistake{"layer_norm_gradient: x and y_grad agree"};
  return {reads[0]};
}
FactorRule LayerNormGradient::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank() - 1);
  FactorRule rule{{rows + "z", "z", rows, rows, rows + "z", rows + "z"}, "z", Linear::no};
  rule.cut_form = "z";
  return rule;
}
CutForm LayerNormGradient::cut_form(Shapes reads, std::int64_t) const {
  return {{{LayerNormGradientSums{wide}, {0, 1, 2, 3, 4, 6}},
           {LayerNormGradientApply{last(reads[0]), wide}, {0, 1, 2, 3, 4, 6, 5}}},
          {"gradient_sums"}};
}
double LayerNormGradient::flops(Shapes all) const {
  return 11 * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNormGradient&) {
  const std::vector<Shape> reads = {usual, {4}, {2, 3}, {2, 3}, usual};
  const std::vector<Range> ranges = {any, any, any, positive};
  return {{LayerNormGradient{}, reads, ranges}, {LayerNormGradient{true}, reads, ranges}};
}

Operands LayerNormWeightGradient::operands() const {
  Operands list = {{"x", Role::read, wide_if(wide)},
                   {"mean", Role::read, Element::accumulate},
                   {"rstd", Role::read, Element::accumulate},
                   {"y_grad"}};
  list.push_back({"gain_grad", write_or_update(accumulate), Element::accumulate});
  if (bias) list.push_back({"bias_grad", write_or_update(accumulate), Element::accumulate});
  return list;
}
Outputs LayerNormWeightGradient::outputs(Shapes reads) const {
  if (reads[0] != reads[3] || reads[0].rank() == 0)
    return Mistake{"layer_norm_weight_gradient: x and y_grad agree, and have rows"};
  return std::vector<Shape>(bias ? 2 : 1, Shape{last(reads[0])});
}
FactorRule LayerNormWeightGradient::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank() - 1);
  FactorRule rule{{rows + "z", rows, rows, rows + "z", "z"}, "", Linear::no};
  if (bias) rule.operands.emplace_back("z");
  return rule;
}
double LayerNormWeightGradient::flops(Shapes all) const {
  return 5 * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNormWeightGradient&) {
  return {
      {LayerNormWeightGradient{false, true}, {usual, {2, 3}, {2, 3}, usual}, {any, any, positive}},
      {LayerNormWeightGradient{}, {usual, {2, 3}, {2, 3}, usual}, {any, any, positive}},
      {LayerNormWeightGradient{.wide = true},
       {usual, {2, 3}, {2, 3}, usual},
       {any, any, positive}}};
}

// --- in parts: z a channel, of a block where there are blocks; p a block; q the two numbers of a
// row

Operands LayerNormMoments::operands() const {
  return {{"x", Role::read, wide_if(wide)}, {"moments", Role::write, Element::accumulate}};
}
Outputs LayerNormMoments::outputs(Shapes reads) const {
  if (parts <= 0 || reads[0].rank() == 0 || last(reads[0]) % parts != 0)
    return Mistake{"layer_norm_moments: the parts divide the last dim of x"};
  return {
      join({parts}, 0, 1, join(reads[0], 0, reads[0].rank() - 1, {2}, 0, 1), 0, reads[0].rank())};
}
FactorRule LayerNormMoments::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  FactorRule rule{{rows + "(pz)", "p" + rows + "q"}, "zq", Linear::no};
  rule.sizes = {{'p', parts}, {'z', last(reads[0]) / std::max<std::int64_t>(parts, 1)}};
  return rule;
}
double LayerNormMoments::flops(Shapes all) const {
  return 5 * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNormMoments&) {
  return {{LayerNormMoments{2}, {usual}}, {LayerNormMoments{2, true}, {usual}}};
}

Operands LayerNormApply::operands() const {
  Operands list = {
      {"x", Role::read, wide_if(wide)}, {"moments", Role::read, Element::accumulate}, {"gain"}};
  if (bias) list.push_back({"bias"});
  list.push_back({"y", Role::write, Element::compute, std::nullopt});
  list.push_back({"mean", Role::write, Element::accumulate});
  list.push_back({"rstd", Role::write, Element::accumulate});
  return list;
}
Outputs LayerNormApply::outputs(Shapes reads) const {
  const Shape &x = reads[0], &moments = reads[1];
  if (x.rank() == 0 || moments.rank() != x.rank() + 1 || moments.back() != 2 ||
      join(moments, 1, x.rank(), {}, 0, 0) != without_last(x))
    return Mistake{"layer_norm_apply: moments are (parts, the rows of x, 2)"};
  if (moments[0] <= 0 || width % moments[0] != 0 || last(x) > width)
    return Mistake{"layer_norm_apply: the parts divide the width, and x is no wider"};
  for (std::size_t i = 2; i < reads.size(); ++i)
    if (reads[i] != Shape{last(x)})
      return Mistake{"layer_norm_apply: gain and bias have the size of the last dim of x"};
  return {x, without_last(x), without_last(x)};
}
FactorRule LayerNormApply::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  // Every rank merges all moments, so that mean and rstd are the same on all.
  FactorRule rule{{rows + "z", "p" + rows + "q", "z"}, "pq", Linear::no, Reduction::sum, "z"};
  if (bias) rule.operands.emplace_back("z");
  rule.operands.insert(rule.operands.end(), {rows + "z", rows, rows});
  return rule;
}
double LayerNormApply::flops(Shapes all) const {
  return 4 * elements(all[0]) + 4 * elements(all[1]);
}
std::vector<Example> examples_of(const LayerNormApply&) {
  const std::vector<Shape> reads = {usual, {2, 2, 3, 2}, {4}, {4}};
  return {{LayerNormApply{1e-6, true, 8}, reads, {any, positive}},
          {LayerNormApply{1e-6, true, 8, true}, reads, {any, positive}}};
}

Operands LayerNormGradientSums::operands() const {
  return {{"x", Role::read, wide_if(wide)},
          {"gain"},
          {"mean", Role::read, Element::accumulate},
          {"rstd", Role::read, Element::accumulate},
          {"y_grad"},
          {"sums", Role::write, Element::accumulate}};
}
Outputs LayerNormGradientSums::outputs(Shapes reads) const {
  if (reads[0] != reads[4] || !are_rows_of(reads[2], reads[0]))
    return Mistake{"layer_norm_gradient_sums: x and y_grad agree"};
  return {join(reads[2], 0, reads[2].rank(), {2}, 0, 1)};
}
FactorRule LayerNormGradientSums::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  return {{rows + "z", "z", rows, rows, rows + "z", rows + "q"}, "q", Linear::no};
}
double LayerNormGradientSums::flops(Shapes all) const {
  return 6 * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNormGradientSums&) {
  const std::vector<Shape> reads = {usual, {4}, {2, 3}, {2, 3}, usual};
  const std::vector<Range> ranges = {any, any, any, positive};
  return {{LayerNormGradientSums{}, reads, ranges}, {LayerNormGradientSums{true}, reads, ranges}};
}

Operands LayerNormGradientApply::operands() const {
  return {{"x", Role::read, wide_if(wide)},
          {"gain"},
          {"mean", Role::read, Element::accumulate},
          {"rstd", Role::read, Element::accumulate},
          {"y_grad"},
          {"sums", Role::read, Element::accumulate},
          x_gradient(wide)};
}
Outputs LayerNormGradientApply::outputs(Shapes reads) const {
  if (reads[0] != reads[4] || !are_rows_of(reads[2], reads[0]))
    return Mistake{"layer_norm_gradient_apply: x and y_grad agree"};
  if (reads[5] != join(reads[2], 0, reads[2].rank(), {2}, 0, 1) || last(reads[0]) > width)
    return Mistake{
        "layer_norm_gradient_apply: two sums for every row, and x is no wider than the width"};
  return {reads[0]};
}
FactorRule LayerNormGradientApply::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  return {{rows + "z", "z", rows, rows, rows + "z", rows + "q", rows + "z"}, "q", Linear::no};
}
double LayerNormGradientApply::flops(Shapes all) const {
  return 7 * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNormGradientApply&) {
  const std::vector<Shape> reads = {usual, {4}, {2, 3}, {2, 3}, usual, {2, 3, 2}};
  const std::vector<Range> ranges = {any, any, any, positive};
  return {{LayerNormGradientApply{8}, reads, ranges},
          {LayerNormGradientApply{8, true}, reads, ranges}};
}

}  // namespace fourfold::op
