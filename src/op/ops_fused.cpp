// Rules of fused rows, in the order of fused.h. They follow from those of the parts.
#include <utility>

#include "op/rule_helpers.h"
#include "op/table.h"

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
std::vector<Shape> BiasGelu::outputs(Shapes reads) const {
  return {AddBias{}.outputs(reads)[0], reads[0]};
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
std::vector<Shape> AddLayerNorm::outputs(Shapes reads) const {
  require(reads[0] == reads[1], "add_layer_norm: x and branch agree");
  const Shape channels{last(reads[0])};
  for (std::size_t i = 2; i < reads.size(); ++i)
    require(reads[i] == channels || reads[i].rank() == 0,
            "add_layer_norm: gain and biases have the size of the last dim of x");
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
std::vector<Shape> AddLayerNormGradient::outputs(Shapes reads) const {
  require(!addend || reads[5] == reads[0], "add_layer_norm_gradient: x and addend agree");
  return std::vector<Shape>(rate > 0 ? 2 : 1, LayerNormGradient{}.outputs(reads)[0]);
}
FactorRule AddLayerNormGradient::factors(Shapes reads) const {
  FactorRule rule = LayerNormGradient{}.factors(reads);
  const std::string x = rule.operands[0];
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
std::vector<Shape> CrossEntropyBoth::outputs(Shapes reads) const {
  std::vector<Shape> shapes = CrossEntropy{}.outputs(reads);
  shapes.push_back(reads[0]);
  return shapes;
}
FactorRule CrossEntropyBoth::factors(Shapes reads) const {
  FactorRule rule = CrossEntropy{}.factors(reads);
  rule.operands.push_back(rule.operands[0]);
  return rule;
}
double CrossEntropyBoth::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

// --- what they stand for

std::vector<Part> parts_of(const BiasGelu&) {
  return {{AddBias{}, {0, 1, 2}}, {Gelu{}, {2, 3}}};
}

std::vector<Part> parts_of(const AddLayerNorm& row) {
  const bool drops = row.rate > 0;
  const std::size_t branch_bias = 2, seed = branch_bias + (row.branch_bias ? 1 : 0),
                    gain = seed + (drops ? 2 : 0), sum = gain + (row.bias ? 2 : 1);
  std::vector<Part> list;
  std::size_t branch = 1;
  if (row.branch_bias) {
    list.push_back({AddBias{}, {branch, branch_bias, sum}});
    branch = sum;
  }
  if (drops) {
    list.push_back({dropout_of(row), {branch, seed, seed + 1, sum}});
    branch = sum;
  }
  list.push_back({Add{}, {branch, 0, sum}});
  Part norm{LayerNorm{row.epsilon, row.bias}, {sum, gain}};
  if (row.bias) norm.operands.push_back(gain + 1);
  norm.operands.insert(norm.operands.end(), {sum + 1, sum + 2, sum + 3});
  list.push_back(std::move(norm));
  return list;
}

std::vector<Part> parts_of(const AddLayerNormGradient& row) {
  const bool drops = row.rate > 0;
  const std::size_t addend = 5, seed = addend + (row.addend ? 1 : 0), sum = seed + (drops ? 2 : 0);
  std::vector<Part> list = {{LayerNormGradient{}, {0, 1, 2, 3, 4, sum}}};
  if (row.addend) list.push_back({Add{}, {sum, addend, sum}});
  if (drops) list.push_back({dropout_of(row), {sum, seed, seed + 1, sum + 1}});
  return list;
}

std::vector<Part> parts_of(const CrossEntropyBoth& row) {
  return {{CrossEntropy{}, {0, 1, 2, 3}}, {CrossEntropyGradient{row.scale}, {0, 1, 3, 4}}};
}

}  // namespace fourfold::op
