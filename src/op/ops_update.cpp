// Rules of the update and of state, in the order of ops.h.
#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {
namespace {

Operands sum_operands(std::int64_t tensors, const Operand& sum) {
  Operands list(static_cast<std::size_t>(list_length(tensors)), Operand{"x"});
  list.push_back(sum);
  return list;
}
template <class Row>
std::vector<Piece> pieces_of_sum(const Row& row) {
  std::vector<Piece> list;
  const auto count = static_cast<std::size_t>(list_length(row.tensors));
  for (std::size_t i = 0; i < count; ++i)
    list.push_back({Row{.accumulate = row.accumulate || i > 0}, {i, count}});
  return list;
}

}  // namespace

// --- update

Operands SquaredNorm::operands() const {
  return sum_operands(tensors, {"sum", write_or_update(accumulate), Element::f64});
}
Outputs SquaredNorm::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule SquaredNorm::factors(Shapes reads) const {
  require(tensors == 1, "a sum of several tensors is judged by its pieces");
  return {{letters(reads[0].rank()), ""}, "", Linear::no};
}
double SquaredNorm::flops(Shapes all) const {
  double total = 0;
  for (const Shape& x : all.first(all.size() - 1)) total += 2 * elements(x);
  return total;
}
std::vector<Piece> SquaredNorm::pieces() const {
  return pieces_of_sum(*this);
}
std::vector<Example> examples_of(const SquaredNorm&) {
  return {{SquaredNorm{true}, {{2, 3}}, {any, positive}},
          {SquaredNorm{true, 2}, {{2, 3}, {4}}, {any, any, positive}}};
}

Operands Vote::operands() const {
  return {{"vote", Role::read, Element::i64},
          {"squared_norm", Role::read, Element::f64, std::nullopt, State::sum_over_gradients},
          {"loss_sum", Role::read, Element::f64},
          {"valid_count", Role::read, Element::i64},
          {"non_finite", Role::read, Element::i64, std::nullopt, State::non_finite},
          {"lr", Role::read, Element::f64},
          {"votes", Role::write, Element::i64}};
}
Outputs Vote::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule Vote::factors(Shapes) const {
  return {std::vector<OperandFactors>(7, ""), "", Linear::first};
}
double Vote::flops(Shapes) const {
  return 0;
}
std::vector<Example> examples_of(const Vote&) {
  return {{Vote{}, std::vector<Shape>(6)}};
}

Operands UpdateControl::operands() const {
  return {{"squared_norm", Role::read, Element::f64, std::nullopt, State::sum_over_gradients},
          {"valid_count", Role::read, Element::i64},
          {"votes", Role::read, Element::i64},
          {"grad_norm", Role::write, Element::f64},
          {"scale", Role::write, Element::f64},
          {"applied", Role::write, Element::i64}};
}
Outputs UpdateControl::outputs(Shapes) const {
  return {Shape{}, Shape{}, Shape{}};
}
FactorRule UpdateControl::factors(Shapes) const {
  return {std::vector<OperandFactors>(6, ""), "", Linear::no};
}
double UpdateControl::flops(Shapes) const {
  return 0;
}
std::vector<Example> examples_of(const UpdateControl&) {
  return {{UpdateControl{12345, 0.5}, std::vector<Shape>(3), {positive}}};
}

Operands MovingAverage::operands() const {
  return {{"weight"}, {"applied", Role::read, Element::i64}, kept("average", State::average)};
}
Outputs MovingAverage::outputs(Shapes reads) const {
  return {reads[0]};
}
FactorRule MovingAverage::factors(Shapes reads) const {
  const std::string x = letters(reads[0].rank());
  return {{x, "", x}, "", Linear::no};
}
double MovingAverage::flops(Shapes all) const {
  return 3 * elements(all[0]);
}
std::vector<Example> examples_of(const MovingAverage&) {
  return {{MovingAverage{0.75}, {{2, 3}, scalar}}};
}

std::int64_t MovingAverageList::count() const {
  return list_length(tensors);
}
Operands MovingAverageList::operands() const {
  const auto length = static_cast<std::size_t>(count());
  Operands list = {{"applied", Role::read, Element::i64}};
  list.resize(1 + length, Operand{"weight"});
  list.resize(1 + 2 * length, kept("average", State::average));
  return list;
}
Outputs MovingAverageList::outputs(Shapes reads) const {
  return std::vector<Shape>(reads.begin() + 1, reads.end());
}
double MovingAverageList::flops(Shapes all) const {
  return flops_of_pieces(pieces(), all);
}
std::vector<Piece> MovingAverageList::pieces() const {
  const auto length = static_cast<std::size_t>(count());
  std::vector<Piece> list;
  for (std::size_t i = 0; i < length; ++i)
    list.push_back({MovingAverage{decay}, {1 + i, 0, 1 + length + i}});
  return list;
}
std::vector<Example> examples_of(const MovingAverageList&) {
  return {{MovingAverageList{0.75, 2}, {scalar, {2, 3}, {4}}}};
}

Operands CountUpdate::operands() const {
  return {{"applied", Role::read, Element::i64}, kept("updates", State::counter, Element::i64)};
}
Outputs CountUpdate::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule CountUpdate::factors(Shapes) const {
  return {{"", ""}, "", Linear::no};
}
double CountUpdate::flops(Shapes) const {
  return 0;
}
std::vector<Example> examples_of(const CountUpdate&) {
  return {{CountUpdate{}, {scalar}}};
}

Operands CountNonFinite::operands() const {
  return {{"found", Role::read, Element::i64, std::nullopt, State::sum_over_updates},
          kept("non_finite", State::non_finite, Element::i64)};
}
Outputs CountNonFinite::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule CountNonFinite::factors(Shapes) const {
  return {{"", ""}, "", Linear::no};
}
double CountNonFinite::flops(Shapes) const {
  return 0;
}
std::vector<Example> examples_of(const CountNonFinite&) {
  return {{CountNonFinite{}, {scalar}}};
}

// --- state

Operands InitNormal::operands() const {
  return {{"seed", Role::read, Element::u64}, {"x", Role::write}};
}
Outputs InitNormal::outputs(Shapes) const {
  if (part != TensorWindow{} && !is_window_of(part, shape))
    return Mistake{"init_normal: part has the dims of x"};
  return {shape};
}
FactorRule InitNormal::factors(Shapes) const {
  return {{"", letters(shape.rank())}, "", Linear::no};
}
double InitNormal::flops(Shapes all) const {
  return 40 * elements(all[1]);
}
std::vector<Example> examples_of(const InitNormal&) {
  return {{InitNormal{{42}, 0.02, {2, 3}, some_window}, {scalar}}};
}

Operands InitUniform::operands() const {
  return InitNormal{}.operands();
}
Outputs InitUniform::outputs(Shapes) const {
  if (part != TensorWindow{} && !is_window_of(part, shape))
    return Mistake{"init_uniform: part has the dims of x"};
  return {shape};
}
FactorRule InitUniform::factors(Shapes) const {
  return {{"", letters(shape.rank())}, "", Linear::no};
}
double InitUniform::flops(Shapes all) const {
  return 3 * elements(all[1]);
}
std::vector<Example> examples_of(const InitUniform&) {
  return {{InitUniform{{42}, 0.25, {2, 3}, some_window}, {scalar}}};
}

Operands Fill::operands() const {
  return {{"x", Role::write}};
}
Outputs Fill::outputs(Shapes) const {
  return {shape};
}
FactorRule Fill::factors(Shapes) const {
  return {{letters(shape.rank())}, "", Linear::no};
}
double Fill::flops(Shapes) const {
  return 0;
}
std::vector<Example> examples_of(const Fill&) {
  return {{Fill{-1.5, {2, 3}}, {}}};
}

Operands Digest::operands() const {
  return {{"x"}, {"digest", Role::write, Element::u64}};
}
Outputs Digest::outputs(Shapes reads) const {
  if (part != TensorWindow{} && !is_window_of(part, reads[0]))
    return Mistake{"digest: part has the dims of x"};
  return {Shape{}};
}
FactorRule Digest::factors(Shapes reads) const {
  return {{letters(reads[0].rank()), ""}, "", Linear::no};
}
double Digest::flops(Shapes all) const {
  return 8 * elements(all[0]);
}
std::vector<Example> examples_of(const Digest&) {
  // Only zero has the same bits in all types.
  return {{Digest{{43}, some_window}, {{2, 3}}, {Range{0, 0}}}};
}

}  // namespace fourfold::op
