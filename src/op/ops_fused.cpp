// Rules of fused rows, in the order of fused.h. They follow from those of the parts.
#include <utility>

#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {
namespace {

void add_seed_and_step(Operands& list) {
  list.push_back({"seed", Role::read, Element::u64});
  list.push_back({"step", Role::read, Element::i64});
}

template <class Row>
Dropout dropout_of(const Row& row) {
  return {row.stream, row.rate, row.window, row.part};
}

}  // namespace

double flops_of_parts(const Op& row, Shapes all) {
  double total = 0;
  for (const Part& part : parts(row)) {
    std::vector<Shape> shapes;
    for (const std::size_t operand : part.operands) shapes.push_back(all[operand]);
    total += flops(part.op, shapes);
  }
  return total;
}

Operands BiasGelu::operands() const {
  return {{"x"}, {"bias"}, {"sum", Role::write, Element::compute, 0}, {"y", Role::write}};
}
Outputs BiasGelu::outputs(Shapes reads) const {
  const Outputs sum = AddBias{}.outputs(reads);
  if (sum.mistake() != nullptr) return sum;
  return {reads[0], reads[0]};
}
FactorRule BiasGelu::factors(Shapes reads) const {
  FactorRule rule = AddBias{}.factors(reads);
  rule.operands.push_back(rule.operands[0]);
  return rule;
}
double BiasGelu::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

Operands AddLayerNorm::operands() const {
  Operands list = {{"x"}, {"branch"}};
  if (branch_bias) list.push_back({"branch_bias"});
  if (rate > 0) add_seed_and_step(list);
  list.push_back({"gain"});
  if (bias) list.push_back({"bias"});
  list.push_back({"sum", Role::write, Element::compute, 1});
  list.push_back({"y", Role::write});
  list.push_back({"mean", Role::write, Element::accumulate});
  list.push_back({"rstd", Role::write, Element::accumulate});
  return list;
}
Outputs AddLayerNorm::outputs(Shapes reads) const {
  if (reads[0] != reads[1] || reads[0].rank() == 0)
    return Mistake{"add_layer_norm: x and branch agree, and have rows"};
  const Shape channels{last(reads[0])};
  for (std::size_t i = 2; i < reads.size(); ++i)
    if (reads[i] != channels && reads[i].rank() != 0)
      return Mistake{"add_layer_norm: gain and biases have the size of the last dim of x"};
  return {reads[0], reads[0], without_last(reads[0]), without_last(reads[0])};
}
FactorRule AddLayerNorm::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank() - 1);
  FactorRule rule{{rows + "z", rows + "z"}, "z", Linear::no};
  if (branch_bias) rule.operands.emplace_back("z");
  if (rate > 0) rule.operands.insert(rule.operands.end(), {"", ""});
  rule.operands.emplace_back("z");
  if (bias) rule.operands.emplace_back("z");
  rule.operands.insert(rule.operands.end(), {rows + "z", rows + "z", rows, rows});
  return rule;
}
double AddLayerNorm::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

Operands AddLayerNormGradient::operands() const {
  Operands list = LayerNormGradient{}.operands();
  list.pop_back();
  if (addend) list.push_back({"addend"});
  if (rate > 0) add_seed_and_step(list);
  list.push_back({"sum_grad", Role::write, Element::compute, 4});
  if (rate > 0) list.push_back({"branch_grad", Role::write});
  return list;
}
Outputs AddLayerNormGradient::outputs(Shapes reads) const {
  if (addend && reads[5] != reads[0]) return Mistake{"add_layer_norm_gradient: x and addend agree"};
  const Outputs sum_grad = LayerNormGradient{}.outputs(reads);
  if (sum_grad.mistake() != nullptr) return sum_grad;
  return std::vector<Shape>(rate > 0 ? 2 : 1, reads[0]);
}
FactorRule AddLayerNormGradient::factors(Shapes reads) const {
  FactorRule rule = LayerNormGradient{}.factors(reads);
  const OperandFactors x = rule.operands[0];
  rule.operands.pop_back();
  if (addend) rule.operands.push_back(x);
  if (rate > 0) rule.operands.insert(rule.operands.end(), {"", ""});
  rule.operands.push_back(x);
  if (rate > 0) rule.operands.push_back(x);
  return rule;
}
double AddLayerNormGradient::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

Operands CrossEntropyBoth::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"loss", Role::write, Element::accumulate},
          {"lse", Role::write, Element::accumulate},
          {"logits_grad", Role::write, Element::compute, 0}};
}
Outputs CrossEntropyBoth::outputs(Shapes reads) const {
  const Outputs losses = CrossEntropy{}.outputs(reads);
  if (losses.mistake() != nullptr) return losses;
  return {reads[1], reads[1], reads[0]};
}
FactorRule CrossEntropyBoth::factors(Shapes reads) const {
  FactorRule rule = CrossEntropy{}.factors(reads);
  rule.operands.push_back(rule.operands[0]);
  return rule;
}
double CrossEntropyBoth::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}
std::int64_t CrossEntropyBoth::integer_bound(Shapes all) const {
  return all[0].back();
}

// --- what they stand for

std::vector<Part> BiasGelu::parts() const {
  return {{AddBias{}, {0, 1, 2}}, {Gelu{}, {2, 3}}};
}
std::vector<Example> examples_of(const BiasGelu&) {
  return {{BiasGelu{}, {usual, {3, 4}}}};
}

std::vector<Part> AddLayerNorm::parts() const {
  const bool drops = rate > 0;
  const std::size_t added = 2, seed = added + (branch_bias ? 1 : 0), gain = seed + (drops ? 2 : 0),
                    sum = gain + (bias ? 2 : 1);
  std::vector<Part> list;
  std::size_t branch = 1;
  if (branch_bias) {
    list.push_back({AddBias{}, {branch, added, sum}});
    branch = sum;
  }
  if (drops) {
    list.push_back({dropout_of(*this), {branch, seed, seed + 1, sum}});
    branch = sum;
  }
  list.push_back({Add{}, {branch, 0, sum}});
  Part norm{LayerNorm{epsilon, bias}, {sum, gain}};
  if (bias) norm.operands.push_back(gain + 1);
  norm.operands.insert(norm.operands.end(), {sum + 1, sum + 2, sum + 3});
  list.push_back(std::move(norm));
  return list;
}
std::vector<Example> examples_of(const AddLayerNorm&) {
  return {{AddLayerNorm{1e-6, true, true, {7}, 0.1, some_samples, some_window},
           {usual, usual, {4}, scalar, scalar, {4}, {4}}}};
}

std::vector<Part> AddLayerNormGradient::parts() const {
  const bool drops = rate > 0;
  const std::size_t added = 5, seed = added + (addend ? 1 : 0), sum = seed + (drops ? 2 : 0);
  std::vector<Part> list = {{LayerNormGradient{}, {0, 1, 2, 3, 4, sum}}};
  if (addend) list.push_back({Add{}, {sum, added, sum}});
  if (drops) list.push_back({dropout_of(*this), {sum, seed, seed + 1, sum + 1}});
  return list;
}
std::vector<Example> examples_of(const AddLayerNormGradient&) {
  return {{AddLayerNormGradient{true, {7}, 0.1, some_samples, some_window},
           {usual, {4}, {2, 3}, {2, 3}, usual, usual, scalar, scalar},
           {any, any, any, positive}}};
}

std::vector<Part> CrossEntropyBoth::parts() const {
  return {{CrossEntropy{}, {0, 1, 2, 3}}, {CrossEntropyGradient{scale}, {0, 1, 3, 4}}};
}
std::vector<Example> examples_of(const CrossEntropyBoth&) {
  return {{CrossEntropyBoth{1.0 / 3}, {{2, 3, 10}, {2, 3}}}};
}

}  // namespace fourfold::op
