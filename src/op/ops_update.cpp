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

namespace {

/// The operands of an update: what it reads, the weight, the moments by their names, the rounded
/// weight where it `rounds`, and the count.
template <class Row>
Operands update_operands(const Row& row, Operands reads,
                         std::initializer_list<std::string_view> moments) {
  const Element kept_as = wide_if(row.rounds);
  Operands list = std::move(reads);
  list[0].element = kept_as;
  list.push_back(kept("weight", State::weight, kept_as));
  for (const std::string_view moment : moments)
    list.push_back(kept(moment, State::moment, kept_as));
  if (row.rounds) list.push_back(kept("rounded", State::rounded));
  list.push_back({"non_finite", write_or_update(row.accumulate), Element::i64});
  return list;
}

/// The gradient's shape for each tensor that is kept, and that of the count.
template <class Row>
Outputs update_outputs(const Row& row, Shapes reads) {
  std::vector<Shape> shapes;
  for (const Operand& operand : row.operands())
    if (operand.role == Role::update && operand.state != State::none) shapes.push_back(reads[0]);
  shapes.emplace_back();
  return shapes;
}

template <class Row>
FactorRule update_factors(const Row& row, Shapes reads) {
  const std::string x = letters(reads[0].rank());
  FactorRule rule;
  for (const Operand& operand : row.operands()) {
    const bool is_tensor = operand.state == State::gradient ||
                           (operand.role == Role::update && operand.state != State::none);
    rule.operands.emplace_back(is_tensor ? x : "");
  }
  return rule;
}

}  // namespace

Operands AdamW::operands() const {
  return update_operands(*this,
                         {{"grad", Role::read, Element::compute, std::nullopt, State::gradient},
                          {"lr", Role::read, Element::f64},
                          {"scale", Role::read, Element::f64},
                          {"applied", Role::read, Element::i64},
                          {"updates", Role::read, Element::i64, std::nullopt, State::counter}},
                         {"m", "v"});
}
Outputs AdamW::outputs(Shapes reads) const {
  return update_outputs(*this, reads);
}
FactorRule AdamW::factors(Shapes reads) const {
  return update_factors(*this, reads);
}
double AdamW::flops(Shapes all) const {
  return 15 * elements(all[0]);
}
std::vector<Example> examples_of(const AdamW&) {
  const std::vector<Shape> reads = {{2, 3}, scalar, scalar, scalar, scalar};
  const std::vector<Range> ranges = {any, positive, positive, any, any, any, any, positive};
  return {{AdamW{0.8, 0.99, 1e-9, 0.1}, reads, ranges},
          {AdamW{0.8, 0.99, 1e-9, 0.1, true}, reads, ranges},
          {AdamW{.beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-9, .rounds = true}, reads, ranges}};
}

Operands Sgd::operands() const {
  return update_operands(*this,
                         {{"grad", Role::read, Element::compute, std::nullopt, State::gradient},
                          {"lr", Role::read, Element::f64},
                          {"scale", Role::read, Element::f64},
                          {"applied", Role::read, Element::i64}},
                         {"momentum"});
}
Outputs Sgd::outputs(Shapes reads) const {
  return update_outputs(*this, reads);
}
FactorRule Sgd::factors(Shapes reads) const {
  return update_factors(*this, reads);
}
double Sgd::flops(Shapes all) const {
  return 7 * elements(all[0]);
}
std::vector<Example> examples_of(const Sgd&) {
  const std::vector<Shape> reads = {{2, 3}, scalar, scalar, scalar};
  const std::vector<Range> ranges = {any, positive, positive, any, any, any};
  return {{Sgd{0.8, 0.1}, reads, ranges},
          {Sgd{0.8, 0.1, true}, reads, ranges},
          {Sgd{.mu = 0.8, .rounds = true}, reads, ranges}};
}

namespace {

/// Which operands of an update are what it does to a list.
struct Places {
  std::size_t gradient = 0, count = 0;
  std::vector<std::size_t> scalars, states;
};
Places places_of(const Operands& one) {
  Places places;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i].state == State::gradient)
      places.gradient = i;
    else if (one[i].role == Role::read)
      places.scalars.push_back(i);
    else if (one[i].state != State::none)
      places.states.push_back(i);
    else
      places.count = i;
  }
  return places;
}

template <class List>
Operands list_operands(const List& list) {
  const Operands one = list.one(0).operands();
  const Places places = places_of(one);
  Operands all;
  for (const std::size_t i : places.scalars) all.push_back(one[i]);
  all.insert(all.end(), static_cast<std::size_t>(list.count()), one[places.gradient]);
  for (std::int64_t tensor = 0; tensor < list.count(); ++tensor)
    for (const std::size_t i : places.states) all.push_back(one[i]);
  all.push_back(one[places.count]);
  return all;
}

template <class List>
std::vector<std::size_t> places_in_list(const List& list, std::int64_t index) {
  const Operands one = list.one(index).operands();
  const Places places = places_of(one);
  const std::size_t tensor = static_cast<std::size_t>(index), scalars = places.scalars.size(),
                    states = places.states.size(),
                    first_state = scalars + static_cast<std::size_t>(list.count());
  std::vector<std::size_t> result(one.size());
  for (std::size_t i = 0; i < scalars; ++i) result[places.scalars[i]] = i;
  result[places.gradient] = scalars + tensor;
  for (std::size_t i = 0; i < states; ++i)
    result[places.states[i]] = first_state + states * tensor + i;
  result[places.count] = first_state + states * static_cast<std::size_t>(list.count());
  return result;
}

template <class List>
Outputs list_outputs(const List& list, Shapes reads) {
  const Places places = places_of(list.one(0).operands());
  std::vector<Shape> shapes;
  for (const Shape& gradient : reads.subspan(places.scalars.size()))
    shapes.insert(shapes.end(), places.states.size(), gradient);
  shapes.emplace_back();
  return shapes;
}

template <class List>
double list_flops(const List& list, Shapes all) {
  const std::size_t first = places_of(list.one(0).operands()).scalars.size();
  double total = 0;
  for (std::int64_t i = 0; i < list.count(); ++i)
    total += list.one(i).flops(all.subspan(first + static_cast<std::size_t>(i), 1));
  return total;
}

template <class List>
std::vector<Piece> list_pieces(const List& list) {
  std::vector<Piece> pieces;
  for (std::int64_t i = 0; i < list.count(); ++i)
    pieces.push_back({list.one(i), list.operands_of(i)});
  return pieces;
}

}  // namespace

AdamWList AdamWList::of(const One& settings, std::int64_t tensors, std::int64_t decayed) {
  return {settings.beta1, settings.beta2, settings.epsilon,    settings.weight_decay,
          tensors,        decayed,        settings.accumulate, settings.rounds};
}
std::int64_t AdamWList::count() const {
  return list_length(tensors);
}
AdamW AdamWList::one(std::int64_t index) const {
  return {beta1, beta2, epsilon, index < decayed ? weight_decay : 0, accumulate || index > 0,
          rounds};
}
std::vector<std::size_t> AdamWList::operands_of(std::int64_t index) const {
  return places_in_list(*this, index);
}
Operands AdamWList::operands() const {
  return list_operands(*this);
}
Outputs AdamWList::outputs(Shapes reads) const {
  return list_outputs(*this, reads);
}
double AdamWList::flops(Shapes all) const {
  return list_flops(*this, all);
}
std::vector<Piece> AdamWList::pieces() const {
  return list_pieces(*this);
}
std::vector<Example> examples_of(const AdamWList&) {
  return {{AdamWList{0.8, 0.99, 1e-9, 0.1, 2, 1},
           {scalar, scalar, scalar, scalar, {2, 3}, {4}},
           {positive, positive, any, any, any, any, any, any, positive, any, any, positive}}};
}

SgdList SgdList::of(const One& settings, std::int64_t tensors, std::int64_t decayed) {
  return {settings.mu, settings.weight_decay, settings.nesterov, tensors,
          decayed,     settings.accumulate,   settings.rounds};
}
std::int64_t SgdList::count() const {
  return list_length(tensors);
}
Sgd SgdList::one(std::int64_t index) const {
  return {mu, index < decayed ? weight_decay : 0, nesterov, accumulate || index > 0, rounds};
}
std::vector<std::size_t> SgdList::operands_of(std::int64_t index) const {
  return places_in_list(*this, index);
}
Operands SgdList::operands() const {
  return list_operands(*this);
}
Outputs SgdList::outputs(Shapes reads) const {
  return list_outputs(*this, reads);
}
double SgdList::flops(Shapes all) const {
  return list_flops(*this, all);
}
std::vector<Piece> SgdList::pieces() const {
  return list_pieces(*this);
}
std::vector<Example> examples_of(const SgdList&) {
  return {{SgdList{0.8, 0.1, true, 2, 1},
           {scalar, scalar, scalar, {2, 3}, {4}},
           {positive, positive, any, any, any, any, any, any, any}}};
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
