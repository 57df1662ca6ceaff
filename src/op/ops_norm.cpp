// Rules of layer norm, whole and in parts, in the order of ops.h.
#include <algorithm>
#include <numeric>

#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {
namespace {

/// What a norm's rows keep of each row of x: the mean, where it is centred, and rstd.
void append_statistics(Operands& list, bool centred, Role role) {
  if (centred) list.push_back({"mean", role, Element::accumulate});
  list.push_back({"rstd", role, Element::accumulate});
}
/// What the gradients of x read, but for sums; y_grad is the last of them.
Operands gradient_reads(bool wide, bool centred) {
  Operands list = {{"x", Role::read, wide_if(wide)}, {"gain"}};
  append_statistics(list, centred, Role::read);
  list.push_back({"y_grad"});
  return list;
}
/// The gradient of x may lie on that of y where both have one type.
Operand x_gradient(bool wide, bool centred) {
  Operand made{"x_grad", Role::write, wide_if(wide)};
  if (!wide) made.may_alias = gradient_reads(wide, centred).size() - 1;
  return made;
}
/// True if x and the gradient of y agree, and rows of x with their statistics.
bool gradients_agree(Shapes reads, bool centred) {
  const std::size_t y_grad = centred ? 4 : 3;
  if (reads[0] != reads[y_grad] || !are_rows_of(reads[2], reads[0])) return false;
  return reads[y_grad - 1] == reads[2];
}
/// Letters of what the gradients of x read, but for sums.
std::vector<OperandFactors> gradient_letters(const std::string& rows, bool centred) {
  std::vector<OperandFactors> list(centred ? 5 : 4, rows);
  list.front() = list.back() = rows + "z";
  list[1] = "z";
  return list;
}
/// The numbers of a row that moments, and the sums of gradients, have.
std::int64_t numbers_of_row(bool centred) {
  return centred ? 2 : 1;
}
Mistake not_centred_with_bias() {
  return {"layer_norm: a norm that is not centred has no bias"};
}
std::vector<Shape> with_statistics(const Shape& x, bool centred) {
  std::vector<Shape> shapes(centred ? 3 : 2, without_last(x));
  shapes.front() = x;
  return shapes;
}
Shape with_last(const Shape& rows, std::int64_t last_dim) {
  return join(rows, 0, rows.rank(), {last_dim}, 0, 1);
}

}  // namespace

Operands LayerNorm::operands() const {
  Operands list = {{"x", Role::read, wide_if(wide)}, {"gain"}};
  if (bias) list.push_back({"bias"});
  list.push_back({"y", Role::write, Element::compute, std::nullopt});
  append_statistics(list, centred, Role::write);
  return list;
}
Outputs LayerNorm::outputs(Shapes reads) const {
  if (reads[0].rank() == 0 || reads[1] != Shape{last(reads[0])})
    return Mistake{"layer_norm: gain has the size of the last dim of x"};
  if (bias && !centred) return not_centred_with_bias();
  return with_statistics(reads[0], centred);
}
FactorRule LayerNorm::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank() - 1);
  FactorRule rule{{rows + "z", "z"}, "z", Linear::no};
  if (bias) rule.operands.emplace_back("z");
  rule.operands.insert(rule.operands.end(), {rows + "z", rows});
  if (centred) rule.operands.emplace_back(rows);
  rule.cut_form = "z";
  return rule;
}
CutForm LayerNorm::cut_form(Shapes reads, std::int64_t chunks) const {
  const std::size_t moments = operands().size();
  CutForm form{{{LayerNormMoments{chunks, wide, centred}, {0, moments}},
                {LayerNormApply{epsilon, bias, last(reads[0]), wide, centred}, {0, moments}}},
               {"moments"}};
  for (std::size_t operand = 1; operand < moments; ++operand)
    form.rows[1].operands.push_back(operand);
  return form;
}
double LayerNorm::flops(Shapes all) const {
  return (centred ? 8 : 4) * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNorm&) {
  return {{LayerNorm{1e-6, false}, {usual, {4}}},
          {LayerNorm{1e-6, false, false, false}, {usual, {4}}},
          {LayerNorm{1e-5, false, true, false}, {{2, 3, 7}, {7}}},
          {LayerNorm{}, {{2, 3, 7}, {7}, {7}}},
          {LayerNorm{.wide = true}, {usual, {4}, {4}}}};
}

Operands LayerNormGradient::operands() const {
  Operands list = gradient_reads(wide, centred);
  list.push_back(x_gradient(wide, centred));
  return list;
}
Outputs LayerNormGradient::outputs(Shapes reads) const {
  if (!gradients_agree(reads, centred)) return Mistake{"layer_norm_gradient: x and y_grad agree"};
  return {reads[0]};
}
FactorRule LayerNormGradient::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank() - 1);
  FactorRule rule{gradient_letters(rows, centred), "z", Linear::no};
  rule.operands.emplace_back(rows + "z");
  rule.cut_form = "z";
  return rule;
}
CutForm LayerNormGradient::cut_form(Shapes reads, std::int64_t) const {
  const std::size_t x_grad = operands().size() - 1, sums = x_grad + 1;
  std::vector<std::size_t> read(x_grad);
  std::iota(read.begin(), read.end(), std::size_t{0});
  CutForm form{{{LayerNormGradientSums{wide, centred}, read},
                {LayerNormGradientApply{last(reads[0]), wide, centred}, read}},
               {"gradient_sums"}};
  form.rows[0].operands.push_back(sums);
  form.rows[1].operands.insert(form.rows[1].operands.end(), {sums, x_grad});
  return form;
}
double LayerNormGradient::flops(Shapes all) const {
  return (centred ? 11 : 9) * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNormGradient&) {
  const std::vector<Shape> reads = {usual, {4}, {2, 3}, {2, 3}, usual};
  const std::vector<Range> ranges = {any, any, any, positive};
  return {{LayerNormGradient{}, reads, ranges},
          {LayerNormGradient{true}, reads, ranges},
          {LayerNormGradient{false, false}, {usual, {4}, {2, 3}, usual}, {any, any, positive}},
          {LayerNormGradient{true, false}, {usual, {4}, {2, 3}, usual}, {any, any, positive}}};
}

Operands LayerNormWeightGradient::operands() const {
  Operands list = {{"x", Role::read, wide_if(wide)}};
  append_statistics(list, centred, Role::read);
  list.push_back({"y_grad"});
  list.push_back({"gain_grad", write_or_update(accumulate), Element::accumulate});
  if (bias) list.push_back({"bias_grad", write_or_update(accumulate), Element::accumulate});
  return list;
}
Outputs LayerNormWeightGradient::outputs(Shapes reads) const {
  if (reads[0] != reads[centred ? 3 : 2] || !are_rows_of(reads[1], reads[0]))
    return Mistake{"layer_norm_weight_gradient: x and y_grad agree, and have rows"};
  if (bias && !centred) return not_centred_with_bias();
  return std::vector<Shape>(bias ? 2 : 1, Shape{last(reads[0])});
}
FactorRule LayerNormWeightGradient::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank() - 1);
  FactorRule rule{{rows + "z", rows}, "", Linear::no};
  if (centred) rule.operands.emplace_back(rows);
  rule.operands.insert(rule.operands.end(), {rows + "z", "z"});
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
      {LayerNormWeightGradient{.wide = true}, {usual, {2, 3}, {2, 3}, usual}, {any, any, positive}},
      {LayerNormWeightGradient{.bias = false, .centred = false},
       {usual, {2, 3}, usual},
       {any, positive}}};
}

// --- in parts: z a channel, of a block where there are blocks; p a block; q the two numbers of a
// row

Operands LayerNormMoments::operands() const {
  return {{"x", Role::read, wide_if(wide)}, {"moments", Role::write, Element::accumulate}};
}
Outputs LayerNormMoments::outputs(Shapes reads) const {
  if (parts <= 0 || reads[0].rank() == 0 || last(reads[0]) % parts != 0)
    return Mistake{"layer_norm_moments: the parts divide the last dim of x"};
  return {join({parts}, 0, 1, with_last(without_last(reads[0]), numbers_of_row(centred)), 0,
               reads[0].rank())};
}
FactorRule LayerNormMoments::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  FactorRule rule{{rows + "(pz)", "p" + rows + "q"}, "zq", Linear::no};
  rule.sizes = {{'p', parts}, {'z', last(reads[0]) / std::max<std::int64_t>(parts, 1)}};
  return rule;
}
double LayerNormMoments::flops(Shapes all) const {
  return (centred ? 5 : 2) * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNormMoments&) {
  return {{LayerNormMoments{2}, {usual}},
          {LayerNormMoments{2, true}, {usual}},
          {LayerNormMoments{2, false, false}, {usual}}};
}

Operands LayerNormApply::operands() const {
  Operands list = {
      {"x", Role::read, wide_if(wide)}, {"moments", Role::read, Element::accumulate}, {"gain"}};
  if (bias) list.push_back({"bias"});
  list.push_back({"y", Role::write, Element::compute, std::nullopt});
  append_statistics(list, centred, Role::write);
  return list;
}
Outputs LayerNormApply::outputs(Shapes reads) const {
  const Shape &x = reads[0], &moments = reads[1];
  if (x.rank() == 0 || moments.rank() != x.rank() + 1 ||
      moments.back() != numbers_of_row(centred) ||
      join(moments, 1, x.rank(), {}, 0, 0) != without_last(x))
    return Mistake{
        "layer_norm_apply: moments are (parts, the rows of x, 2), or 1 where not centred"};
  if (bias && !centred) return not_centred_with_bias();
  if (moments[0] <= 0 || width % moments[0] != 0 || last(x) > width)
    return Mistake{"layer_norm_apply: the parts divide the width, and x is no wider"};
  for (std::size_t i = 2; i < reads.size(); ++i)
    if (reads[i] != Shape{last(x)})
      return Mistake{"layer_norm_apply: gain and bias have the size of the last dim of x"};
  return with_statistics(x, centred);
}
FactorRule LayerNormApply::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  // Every rank merges all moments, so that mean and rstd are the same on all.
  FactorRule rule{{rows + "z", "p" + rows + "q", "z"}, "pq", Linear::no, Reduction::sum, "z"};
  if (bias) rule.operands.emplace_back("z");
  rule.operands.insert(rule.operands.end(), {rows + "z", rows});
  if (centred) rule.operands.emplace_back(rows);
  return rule;
}
double LayerNormApply::flops(Shapes all) const {
  return 4 * elements(all[0]) + 4 * elements(all[1]);
}
std::vector<Example> examples_of(const LayerNormApply&) {
  const std::vector<Shape> reads = {usual, {2, 2, 3, 2}, {4}, {4}};
  return {
      {LayerNormApply{1e-6, true, 8}, reads, {any, positive}},
      {LayerNormApply{1e-6, true, 8, true}, reads, {any, positive}},
      {LayerNormApply{1e-6, false, 8, false, false}, {usual, {2, 2, 3, 1}, {4}}, {any, positive}}};
}

Operands LayerNormGradientSums::operands() const {
  Operands list = gradient_reads(wide, centred);
  list.push_back({"sums", Role::write, Element::accumulate});
  return list;
}
Outputs LayerNormGradientSums::outputs(Shapes reads) const {
  if (!gradients_agree(reads, centred))
    return Mistake{"layer_norm_gradient_sums: x and y_grad agree"};
  return {with_last(reads[2], numbers_of_row(centred))};
}
FactorRule LayerNormGradientSums::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  FactorRule rule{gradient_letters(rows, centred), "q", Linear::no};
  rule.operands.emplace_back(rows + "q");
  return rule;
}
double LayerNormGradientSums::flops(Shapes all) const {
  return (centred ? 6 : 5) * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNormGradientSums&) {
  const std::vector<Shape> reads = {usual, {4}, {2, 3}, {2, 3}, usual};
  const std::vector<Range> ranges = {any, any, any, positive};
  return {{LayerNormGradientSums{}, reads, ranges},
          {LayerNormGradientSums{true}, reads, ranges},
          {LayerNormGradientSums{false, false}, {usual, {4}, {2, 3}, usual}, {any, any, positive}}};
}

Operands LayerNormGradientApply::operands() const {
  Operands list = gradient_reads(wide, centred);
  list.push_back({"sums", Role::read, Element::accumulate});
  list.push_back(x_gradient(wide, centred));
  return list;
}
Outputs LayerNormGradientApply::outputs(Shapes reads) const {
  if (!gradients_agree(reads, centred))
    return Mistake{"layer_norm_gradient_apply: x and y_grad agree"};
  if (reads.back() != with_last(reads[2], numbers_of_row(centred)) || last(reads[0]) > width)
    return Mistake{
        "layer_norm_gradient_apply: two sums for every row, one where not centred, and x is no "
        "wider than the width"};
  return {reads[0]};
}
FactorRule LayerNormGradientApply::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  FactorRule rule{gradient_letters(rows, centred), "q", Linear::no};
  rule.operands.insert(rule.operands.end(), {rows + "q", rows + "z"});
  return rule;
}
double LayerNormGradientApply::flops(Shapes all) const {
  return (centred ? 7 : 5) * elements(all[0]);
}
std::vector<Example> examples_of(const LayerNormGradientApply&) {
  const std::vector<Shape> reads = {usual, {4}, {2, 3}, {2, 3}, usual, {2, 3, 2}};
  const std::vector<Range> ranges = {any, any, any, positive};
  return {{LayerNormGradientApply{8}, reads, ranges},
          {LayerNormGradientApply{8, true}, reads, ranges},
          {LayerNormGradientApply{8, false, false},
           {usual, {4}, {2, 3}, usual, {2, 3, 1}},
           {any, any, positive}}};
}

}  // namespace fourfold::op
