// Rules of the update and of state, in the order of ops.h.
#include "op/ops.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

// --- update

Operands SquaredNorm::operands() const {
  return {{"x"}, {"sum", write_or_update(accumulate), Element::f64}};
}
std::vector<Shape> SquaredNorm::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule SquaredNorm::factors(Shapes reads) const {
  return {{letters(reads[0].rank()), ""}, "", Linear::no};
}
double SquaredNorm::flops(Shapes all) const {
  return 2 * elements(all[0]);
}

Operands CountNonFinite::operands() const {
  return {{"x"}, {"count", write_or_update(accumulate), Element::i64}};
}
std::vector<Shape> CountNonFinite::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule CountNonFinite::factors(Shapes reads) const {
  return {{letters(reads[0].rank()), ""}, "", Linear::no};
}
double CountNonFinite::flops(Shapes) const {
  return 0;
}

Operands UpdateControl::operands() const {
  return {{"squared_norm", Role::read, Element::f64}, {"loss_sum", Role::read, Element::f64},
          {"token_count", Role::read, Element::i64},  {"non_finite", Role::read, Element::i64},
          {"lr", Role::read, Element::f64},           {"grad_norm", Role::write, Element::f64},
          {"scale", Role::write, Element::f64},       {"applied", Role::write, Element::i64}};
}
std::vector<Shape> UpdateControl::outputs(Shapes) const {
  return {Shape{}, Shape{}, Shape{}};
}
FactorRule UpdateControl::factors(Shapes) const {
  return {std::vector<std::string>(8, ""), "", Linear::no};
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
  return {shape};
}
FactorRule InitNormal::factors(Shapes) const {
  return {{"", letters(shape.rank())}, letters(shape.rank()), Linear::no};
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
std::vector<Shape> Digest::outputs(Shapes) const {
  return {Shape{}};
}
FactorRule Digest::factors(Shapes reads) const {
  return {{letters(reads[0].rank()), ""}, letters(reads[0].rank()), Linear::no};
}
double Digest::flops(Shapes all) const {
  return 8 * elements(all[0]);
}

}  // namespace fourfold::op
