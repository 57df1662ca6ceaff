// Rules of optimizers, their forms over residues and what they are tried on, in the order of
// optimizers.h.
#include "op/optimizers.h"

#include <utility>

#include "op/examples.h"
#include "op/residue_loops.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

// --- each optimizer

Residue AdamW::updated(const Residues& residues, const ResidueStep& step, Residue g, Residue weight,
                       const std::array<Residue*, 2>& kept) const {
  Residue &m = *kept[0], &v = *kept[1];
  m = average_of(residue_of(beta1), m, g);
  v = average_of(residue_of(beta2), v, multiply(g, g));
  return residues.hash(function_name("adamw.weight"),
                       {weight, m, v, step.lr, step.updates, residue_of(beta1), residue_of(beta2),
                        residue_of(epsilon), residue_of(weight_decay)});
}
AdamW AdamW::example() {
  return {0.8, 0.99, 1e-9, 0.1};
}

Residue Sgd::updated(const Residues&, const ResidueStep& step, Residue g, Residue weight,
                     const std::array<Residue*, 1>& kept) const {
  const Residue decayed = add(g, multiply(residue_of(weight_decay), weight));
  Residue& momentum = *kept[0];
  momentum = add(multiply(residue_of(mu), momentum), decayed);
  const Residue direction = nesterov ? add(decayed, multiply(residue_of(mu), momentum)) : momentum;
  return subtract(weight, multiply(step.lr, direction));
}
Sgd Sgd::example() {
  return {0.8, 0.1, true};
}

Residue Lion::updated(const Residues& residues, const ResidueStep& step, Residue g, Residue weight,
                      const std::array<Residue*, 1>& kept) const {
  Residue& m = *kept[0];
  const Residue direction = average_of(residue_of(beta1), m, g);
  m = average_of(residue_of(beta2), m, g);
  return residues.hash(function_name("lion.weight"),
                       {weight, direction, m, step.lr, residue_of(weight_decay)});
}
Lion Lion::example() {
  return {0.75, 0.9375, 0.1};  // so that rounding turns no step
}

// --- all of them

Operands update_operands(std::span<const Moment> moments, bool counts_updates, bool accumulate,
                         bool rounds) {
  const Element kept_as = wide_if(rounds);
  Operands list = {{"grad", Role::read, kept_as, std::nullopt, State::gradient},
                   {"lr", Role::read, Element::f64},
                   {"scale", Role::read, Element::f64},
                   {"applied", Role::read, Element::i64}};
  if (counts_updates)
    list.push_back({"updates", Role::read, Element::i64, std::nullopt, State::counter});
  list.push_back(kept("weight", State::weight, kept_as));
  for (const Moment& moment : moments) list.push_back(kept(moment.name, State::moment, kept_as));
  if (rounds) list.push_back(kept("rounded", State::rounded));
  list.push_back({"non_finite", write_or_update(accumulate), Element::i64});
  return list;
}

namespace {

/// True if the operand is a tensor that an update keeps.
bool is_state(const Operand& operand) {
  return operand.role == Role::update && operand.state != State::none;
}

}  // namespace

Outputs update_outputs(const Operands& operands, Shapes reads) {
  std::vector<Shape> shapes(static_cast<std::size_t>(std::ranges::count_if(operands, is_state)),
                            reads[0]);
  shapes.emplace_back();
  return shapes;
}

FactorRule update_factors(const Operands& operands, Shapes reads) {
  const std::string x = letters(reads[0].rank());
  FactorRule rule;
  for (const Operand& operand : operands)
    rule.operands.emplace_back(operand.state == State::gradient || is_state(operand) ? x : "");
  return rule;
}

double update_flops(double flops_of_element, Shapes all) {
  return flops_of_element * elements(all[0]);
}

namespace {

/// Updates each element where the step is applied.
template <class Row>
void update_residues(const Row& row, const Residues& residues, ResidueTensors all) {
  constexpr std::size_t weight = Row::update.counts_updates ? 5 : 4;
  const ResidueStep step{
      all[1].elements[0], all[2].elements[0],
      Row::update.counts_updates ? residue_of_integer(integer_at(all[4])) : Residue{0}};
  const bool is_applied = all[3].elements[0] != 0;
  Residue found = 0;
  for (std::size_t i = 0; is_applied && i < all[weight].elements.size(); ++i) {
    std::array<Residue*, Row::update.num_moments> kept;
    for (std::size_t k = 0; k < kept.size(); ++k) kept[k] = &all[weight + 1 + k].elements[i];
    Residue& element = all[weight].elements[i];
    const Residue changed =
        row.updated(residues, step, multiply(step.scale, all[0].elements[i]), element, kept);
    if (is_finite(changed))
      element = changed;
    else
      ++found;
    if (row.rounds) all[all.size() - 2].elements[i] = element;
  }
  Residue& non_finite = all.back().elements[0];
  non_finite = row.accumulate ? non_finite + found : found;
}

/// An example for gradients of these shapes: of the row for one, of its list for several.
template <class Row>
Example example_of(const Op& op, const std::vector<Shape>& gradients) {
  Example example{op, {}};
  const std::size_t scalars = Row::update.counts_updates ? 4 : 3;
  const std::vector<Range> ranges_of_scalars = {positive, positive, any, any};
  // One tensor alone has its gradient first; a list has the scalars first.
  const bool is_list = gradients.size() > 1;
  for (const Shape& gradient : gradients) {
    example.reads.push_back(gradient);
    example.ranges.push_back(any);
  }
  const auto place = [&](auto& list) { return is_list ? list.begin() : list.end(); };
  example.reads.insert(place(example.reads), scalars, scalar);
  example.ranges.insert(place(example.ranges), ranges_of_scalars.begin(),
                        ranges_of_scalars.begin() + static_cast<std::ptrdiff_t>(scalars));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    example.ranges.push_back(any);
    for (const Moment& moment : Row::update.moments) example.ranges.push_back(moment.domain);
  }
  return example;
}

template <class Row>
std::vector<Example> examples_of_update() {
  const Row usual = Row::example();
  Row more = usual, rounding = usual;
  more.accumulate = true;
  rounding.rounds = true;
  rounding.weight_decay = 0;
  std::vector<Example> list;
  for (const Row& row : {usual, more, rounding}) list.push_back(example_of<Row>(row, {{2, 3}}));
  return list;
}

}  // namespace

// --- lists

namespace {

/// The parts that the operands of an update play in a list, by their places.
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
    else if (is_state(one[i]))
      places.states.push_back(i);
    else
      places.count = i;
  }
  return places;
}

}  // namespace

template <class Row>
std::int64_t UpdateList<Row>::count() const {
  return list_length(tensors);
}

template <class Row>
Row UpdateList<Row>::one(std::int64_t index) const {
  Row row = *this;
  if (index >= decayed) row.weight_decay = 0;
  row.accumulate = row.accumulate || index > 0;
  return row;
}

template <class Row>
std::vector<std::size_t> UpdateList<Row>::operands_of(std::int64_t index) const {
  const Operands single = one(index).operands();
  const Places places = places_of(single);
  const std::size_t tensor = static_cast<std::size_t>(index), scalars = places.scalars.size(),
                    states = places.states.size(),
                    first_state = scalars + static_cast<std::size_t>(count());
  std::vector<std::size_t> result(single.size());
  for (std::size_t i = 0; i < scalars; ++i) result[places.scalars[i]] = i;
  result[places.gradient] = scalars + tensor;
  for (std::size_t i = 0; i < states; ++i)
    result[places.states[i]] = first_state + states * tensor + i;
  result[places.count] = first_state + states * static_cast<std::size_t>(count());
  return result;
}

template <class Row>
Operands UpdateList<Row>::operands() const {
  const Operands single = one(0).operands();
  const Places places = places_of(single);
  Operands all;
  for (const std::size_t i : places.scalars) all.push_back(single[i]);
  all.insert(all.end(), static_cast<std::size_t>(count()), single[places.gradient]);
  for (std::int64_t tensor = 0; tensor < count(); ++tensor)
    for (const std::size_t i : places.states) all.push_back(single[i]);
  all.push_back(single[places.count]);
  return all;
}

template <class Row>
Outputs UpdateList<Row>::outputs(Shapes reads) const {
  const Places places = places_of(one(0).operands());
  std::vector<Shape> shapes;
  for (const Shape& gradient : reads.subspan(places.scalars.size()))
    shapes.insert(shapes.end(), places.states.size(), gradient);
  shapes.emplace_back();
  return shapes;
}

template <class Row>
double UpdateList<Row>::flops(Shapes all) const {
  const std::size_t first = places_of(one(0).operands()).scalars.size();
  double total = 0;
  for (std::int64_t i = 0; i < count(); ++i)
    total += one(i).flops(all.subspan(first + static_cast<std::size_t>(i), 1));
  return total;
}

template <class Row>
std::vector<Piece> UpdateList<Row>::pieces() const {
  std::vector<Piece> list;
  for (std::int64_t i = 0; i < count(); ++i) list.push_back({one(i), operands_of(i)});
  return list;
}

// --- for each of them

#define FOURFOLD_OPTIMIZER(Type)                                                     \
  void Type::residue_form(const Residues& residues, ResidueTensors all) const {      \
    update_residues(*this, residues, all);                                           \
  }                                                                                  \
  template struct UpdateList<Type>;                                                  \
  std::vector<Example> examples_of(const Type&) {                                    \
    return examples_of_update<Type>();                                               \
  }                                                                                  \
  std::vector<Example> examples_of(const Type##List&) {                              \
    return {example_of<Type>(Type##List::of(Type::example(), 2, 1), {{2, 3}, {4}})}; \
  }
FOURFOLD_OPTIMIZERS(FOURFOLD_OPTIMIZER)
#undef FOURFOLD_OPTIMIZER

std::vector<std::string> names_of_update_lists() {
  std::vector<std::string> names;
  for_each_optimizer([&]<class Row>() { names.emplace_back(UpdateList<Row>::name); });
  return names;
}

}  // namespace fourfold::op
