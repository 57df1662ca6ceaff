// Rules of the update and of state, in the order of ops.h.
#include "op/rule_helpers.h"
#include "op/table.h"

namespace fourfold::op {
namespace {

Operands sum_operands(std::int64_t tensors, const Operand& sum) {
  Operands list(static_cast<std::size_t>(list_length(tensors)), Operand{"x"});
  list.push_back(sum);
  return list;
}
FactorRule sum_factors(Shapes reads) {
  std::vector<std::string> all = letters_of_each(reads);
  all.emplace_back();
  return {std::move(all), "", Linear::no};
}
template <class Row>
std::vector<Part> parts_of_sum(const Row& row) {
  std::vector<Part> list;
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
std::vector<Shape> SquaredNorm::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule SquaredNorm::factors(Shapes reads) const {
  return sum_factors(reads);
}
double SquaredNorm::flops(Shapes all) const {
  double total = 0;
  for (const Shape& x : all.first(all.size() - 1)) total += 2 * elements(x);
  return total;
}
std::vector<Part> parts_of(const SquaredNorm& row) {
  return parts_of_sum(row);
}

Operands CountNonFinite::operands() const {
  return sum_operands(tensors, {"count", write_or_update(accumulate), Element::i64});
}
std::vector<Shape> CountNonFinite::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule CountNonFinite::factors(Shapes reads) const {
  return sum_factors(reads);
}
std::vector<Part> parts_of(const CountNonFinite& row) {
  return parts_of_sum(row);
}
double CountNonFinite::flops(Shapes) const {
  return 0;
}

Operands Vote::operands() const {
  return {{"vote", Role::read, Element::i64},       {"squared_norm", Role::read, Element::f64},
          {"loss_sum", Role::read, Element::f64},   {"token_count", Role::read, Element::i64},
          {"non_finite", Role::read, Element::i64}, {"lr", Role::read, Element::f64},
          {"votes", Role::write, Element::i64}};
}
std::vector<Shape> Vote::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule Vote::factors(Shapes) const {
  return {std::vector<std::string>(7, ""), "", Linear::first};
}
double Vote::flops(Shapes) const {
  return 0;
}

Operands UpdateControl::operands() const {
  return {{"squared_norm", Role::read, Element::f64}, {"token_count", Role::read, Element::i64},
          {"votes", Role::read, Element::i64},        {"grad_norm", Role::write, Element::f64},
          {"scale", Role::write, Element::f64},       {"applied", Role::write, Element::i64}};
}
std::vector<Shape> UpdateControl::outputs(Shapes) const {
  return {Shape{}, Shape{}, Shape{}};
}
FactorRule UpdateControl::factors(Shapes) const {
  return {std::vector<std::string>(6, ""), "", Linear::no};
}
double UpdateControl::flops(Shapes) const {
  return 0;
}

Operands AdamW::operands() const {
  return {{"grad"},
          {"lr", Role::read, Element::f64},
          {"scale", Role::read, Element::f64},
          {"applied", Role::read, Element::i64},
          {"updates", Role::read, Element::i64},
          {"weight", Role::update},
          {"m", Role::update},
          {"v", Role::update}};
}
std::vector<Shape> AdamW::outputs(Shapes reads) const {
  return {reads[0], reads[0], reads[0]};
}
FactorRule AdamW::factors(Shapes reads) const {
  const std::string x = letters(reads[0].rank());
  return {{x, "", "", "", "", x, x, x}, "", Linear::no};
}
double AdamW::flops(Shapes all) const {
  return 15 * elements(all[0]);
}

std::int64_t AdamWList::count() const {
  return list_length(tensors);
}
AdamW AdamWList::one(std::int64_t index) const {
  return {beta1, beta2, epsilon, index < decayed ? weight_decay : 0};
}
std::vector<std::size_t> AdamWList::operands_of(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index),
             first_weight = 4 + static_cast<std::size_t>(count());
  return {
      4 + i, 0, 1, 2, 3, first_weight + 3 * i, first_weight + 3 * i + 1, first_weight + 3 * i + 2};
}
Operands AdamWList::operands() const {
  Operands list = {{"lr", Role::read, Element::f64},
                   {"scale", Role::read, Element::f64},
                   {"applied", Role::read, Element::i64},
                   {"updates", Role::read, Element::i64}};
  for (std::int64_t i = 0; i < count(); ++i) list.push_back({"grad"});
  for (std::int64_t i = 0; i < count(); ++i) {
    list.push_back({"weight", Role::update});
    list.push_back({"m", Role::update});
    list.push_back({"v", Role::update});
  }
  return list;
}
std::vector<Shape> AdamWList::outputs(Shapes reads) const {
  std::vector<Shape> shapes;
  for (std::size_t i = 4; i < reads.size(); ++i) shapes.insert(shapes.end(), 3, reads[i]);
  return shapes;
}
FactorRule AdamWList::factors(Shapes reads) const {
  FactorRule rule{{"", "", "", ""}, "", Linear::no};
  const std::vector<std::string> grads = letters_of_each(reads.subspan(4));
  rule.operands.insert(rule.operands.end(), grads.begin(), grads.end());
  for (const std::string& grad : grads) rule.operands.insert(rule.operands.end(), 3, grad);
  return rule;
}
double AdamWList::flops(Shapes all) const {
  double total = 0;
  for (std::int64_t i = 0; i < count(); ++i) total += 15 * elements(all[operands_of(i)[0]]);
  return total;
}

std::vector<Part> parts_of(const AdamWList& row) {
  std::vector<Part> list;
  for (std::int64_t i = 0; i < row.count(); ++i) list.push_back({row.one(i), row.operands_of(i)});
  return list;
}

Operands CountUpdate::operands() const {
  return {{"applied", Role::read, Element::i64}, {"updates", Role::update, Element::i64}};
}
std::vector<Shape> CountUpdate::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule CountUpdate::factors(Shapes) const {
  return {{"", ""}, "", Linear::no};
}
double CountUpdate::flops(Shapes) const {
  return 0;
}

// --- state

Operands InitNormal::operands() const {
  return {{"seed", Role::read, Element::u64}, {"x", Role::write}};
}
std::vector<Shape> InitNormal::outputs(Shapes) const {
  require(part == TensorWindow{} || is_window_of(part, shape),
          "init_normal: part has the dims of x");
  return {shape};
}
FactorRule InitNormal::factors(Shapes) const {
  return {{"", letters(shape.rank())}, "", Linear::no};
}
double InitNormal::flops(Shapes all) const {
  return 40 * elements(all[1]);
}

Operands Fill::operands() const {
  return {{"x", Role::write}};
}
std::vector<Shape> Fill::outputs(Shapes) const {
  return {shape};
}
FactorRule Fill::factors(Shapes) const {
  return {{letters(shape.rank())}, "", Linear::no};
}
double Fill::flops(Shapes) const {
  return 0;
}

Operands Digest::operands() const {
  return {{"x"}, {"digest", Role::write, Element::u64}};
}
std::vector<Shape> Digest::outputs(Shapes reads) const {
  require(part == TensorWindow{} || is_window_of(part, reads[0]), "digest: part has the dims of x");
  return {Shape{}};
}
FactorRule Digest::factors(Shapes reads) const {
  return {{letters(reads[0].rank()), ""}, "", Linear::no};
}
double Digest::flops(Shapes all) const {
  return 8 * elements(all[0]);
}

}  // namespace fourfold::op
