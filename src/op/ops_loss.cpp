// Rules of the selection of a position and of the loss, in the order of ops.h.
#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

Operands TakePosition::operands() const {
  return {{"x", Role::read, wide_if(wide)},
          {"index", Role::read, Element::i32},
          {"y", Role::write, wide_if(wide)}};
}
Outputs TakePosition::outputs(Shapes reads) const {
  if (reads[0].rank() != 3) return Mistake{"take_position: x is (B, T, C)"};
  return {{reads[0][0], 1, reads[0][2]}};
}
FactorRule TakePosition::factors(Shapes) const {
  return {{"btc", "", "boc"}, "to", Linear::first};
}
double TakePosition::flops(Shapes) const {
  return 0;
}
std::int64_t TakePosition::integer_bound(Shapes all) const {
  return all[0][1];
}
std::vector<Example> examples_of(const TakePosition&) {
  return {{TakePosition{}, {usual, scalar}}, {TakePosition{.wide = true}, {usual, scalar}}};
}

// --- loss

Operands CrossEntropy::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"token_loss", Role::write, Element::accumulate},
          {"lse", Role::write, Element::accumulate}};
}
Outputs CrossEntropy::outputs(Shapes reads) const {
  if (!are_rows_of(reads[1], reads[0]))
    return Mistake{"cross_entropy: a label for every row of logits"};
  return {reads[1], reads[1]};
}
FactorRule CrossEntropy::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  FactorRule rule{{rows + "v", rows, rows, rows}, "v", Linear::no};
  rule.cut_form = "v";
  return rule;
}
CutForm CrossEntropy::cut_form(Shapes, std::int64_t) const {
  return {{{LogitMax{}, {0, 4}},
           {LogitSums{}, {0, 1, 4, 5, 6}},
           {CrossEntropyMerge{}, {4, 5, 6, 1, 2, 3}}},
          {"max", "sums", "sums.label_logit"}};
}
double CrossEntropy::flops(Shapes all) const {
  return 8 * elements(all[0]);
}
std::int64_t CrossEntropy::integer_bound(Shapes all) const {
  return all[0].back();
}
std::vector<Example> examples_of(const CrossEntropy&) {
  return {{CrossEntropy{}, {{2, 3, 10}, {2, 3}}}, {CrossEntropy{}, {{5, 7}, {5}}}};
}

Operands LogitMax::operands() const {
  return {{"logits"}, {"max", Role::write, Element::accumulate}};
}
Outputs LogitMax::outputs(Shapes reads) const {
  if (reads[0].rank() == 0) return Mistake{"logit_max: logits have rows"};
  return {without_last(reads[0])};
}
FactorRule LogitMax::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  return {{rows + "v", rows}, "", Linear::no, Reduction::max};
}
double LogitMax::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const LogitMax&) {
  return {{LogitMax{10, 17}, {{2, 3, 10}}}, {LogitMax{7, 10}, {{5, 7}}}};
}

Operands LogitSums::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"max", Role::read, Element::accumulate},
          {"sum_exp", Role::write, Element::accumulate},
          {"label_logit", Role::write, Element::accumulate}};
}
Outputs LogitSums::outputs(Shapes reads) const {
  if (!are_rows_of(reads[1], reads[0]) || reads[1] != reads[2])
    return Mistake{"logit_sums: a label and a maximum for every row of logits"};
  return {reads[1], reads[1]};
}
FactorRule LogitSums::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  return {{rows + "v", rows, rows, rows, rows}, "", Linear::no};
}
double LogitSums::flops(Shapes all) const {
  return 7 * elements(all[0]);
}
std::int64_t LogitSums::integer_bound(Shapes all) const {
  return all[0].back();
}
std::vector<Example> examples_of(const LogitSums&) {
  return {{LogitSums{10, 17}, {{2, 3, 10}, {2, 3}, {2, 3}}},
          {LogitSums{2, 10}, {{5, 7}, {5}, {5}}}};
}

Operands CrossEntropyMerge::operands() const {
  return {{"max", Role::read, Element::accumulate},
          {"sum_exp", Role::read, Element::accumulate},
          {"label_logit", Role::read, Element::accumulate},
          {"labels", Role::read, Element::i32},
          {"token_loss", Role::write, Element::accumulate},
          {"lse", Role::write, Element::accumulate}};
}
Outputs CrossEntropyMerge::outputs(Shapes reads) const {
  for (const Shape& shape : reads)
    if (shape != reads[0]) return Mistake{"cross_entropy_merge: all operands have one shape"};
  return {reads[0], reads[0]};
}
FactorRule CrossEntropyMerge::factors(Shapes reads) const {
  return {std::vector<OperandFactors>(6, letters(reads[0].rank())), "", Linear::no};
}
double CrossEntropyMerge::flops(Shapes all) const {
  return 3 * elements(all[0]);
}
std::vector<Example> examples_of(const CrossEntropyMerge&) {
  return {{CrossEntropyMerge{}, std::vector<Shape>(4, {2, 3}), {any, positive}},
          {CrossEntropyMerge{}, std::vector<Shape>(4, {5}), {any, positive}}};
}

Operands CrossEntropyGradient::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"lse", Role::read, Element::accumulate},
          {"logits_grad", Role::write, Element::compute, 0}};
}
Outputs CrossEntropyGradient::outputs(Shapes reads) const {
  if (!are_rows_of(reads[1], reads[0]) || reads[1] != reads[2])
    return Mistake{"cross_entropy_gradient: a label and an lse for every row of logits"};
  return {reads[0]};
}
FactorRule CrossEntropyGradient::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  return {{rows + "v", rows, rows, rows + "v"}, "", Linear::no};
}
double CrossEntropyGradient::flops(Shapes all) const {
  return 8 * elements(all[0]);
}
std::int64_t CrossEntropyGradient::integer_bound(Shapes all) const {
  return all[0].back();
}
std::vector<Example> examples_of(const CrossEntropyGradient&) {
  return {{CrossEntropyGradient{1.0 / 3, 10, 17}, {{2, 3, 10}, {2, 3}, {2, 3}}},
          {CrossEntropyGradient{1.0 / 3, 2, 10}, {{5, 7}, {5}, {5}}}};
}

Operands LossSum::operands() const {
  const Role role = write_or_update(accumulate);
  return {{"token_loss", Role::read, Element::accumulate},
          {"labels", Role::read, Element::i32},
          {"loss_sum", role, Element::f64},
          {"count", role, Element::i64}};
}
Outputs LossSum::outputs(Shapes reads) const {
  if (reads[0] != reads[1]) return Mistake{"loss_sum: a label for every loss"};
  return {Shape{}, Shape{}};
}
FactorRule LossSum::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank());
  return {{rows, rows, "", ""}, "", Linear::no};
}
double LossSum::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const LossSum&) {
  return {{LossSum{true}, {{2, 3}, {2, 3}}}, {LossSum{}, {{5}, {5}}}};
}

Operands CountCorrect::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"max", Role::read, Element::accumulate},
          {"count", write_or_update(accumulate), Element::i64}};
}
Outputs CountCorrect::outputs(Shapes reads) const {
  if (!are_rows_of(reads[1], reads[0]) || reads[1] != reads[2])
    return Mistake{"count_correct: a label and a maximum for every row of logits"};
  return {Shape{}};
}
FactorRule CountCorrect::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  return {{rows + "v", rows, rows, ""}, "", Linear::no};
}
double CountCorrect::flops(Shapes all) const {
  return elements(all[1]);
}
std::int64_t CountCorrect::integer_bound(Shapes all) const {
  return all[0].back();
}
std::vector<Example> examples_of(const CountCorrect&) {
  return {{CountCorrect{4, 9, true}, {{2, 3, 10}, {2, 3}, {2, 3}}},
          {CountCorrect{}, {{5, 7}, {5}, {5}}}};
}

}  // namespace fourfold::op
