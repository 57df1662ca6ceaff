#include "op/elementwise.h"

#include "base/format.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

Operands elementwise_operands(std::span<const Operand> list, bool wide) {
  Operands operands(list.begin(), list.end());
  for (Operand& operand : operands)
    if (operand.element == Element::compute) operand.element = wide_if(wide);
  return operands;
}

Outputs elementwise_outputs(std::string_view name, Shapes reads) {
  for (const Shape& read : reads)
    if (read != reads[0]) return Mistake{format("{}: all operands have one shape", name)};
  return {reads[0]};
}

FactorRule elementwise_factors(Linear linear, Shapes reads) {
  const std::string x = letters(reads[0].rank());
  return {std::vector<OperandFactors>(reads.size() + 1, x), "", linear};
}

double elementwise_flops(double flops_of_element, Shapes all) {
  return flops_of_element * elements(all[0]);
}

}  // namespace fourfold::op
