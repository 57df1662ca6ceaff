#include "verify/element_arithmetic.h"

#include "verify/residue_memory.h"

namespace fourfold::verify {

using op::Residue;

void ResidueArithmetic::compute(const op::Op& op, op::ResidueTensors all) const {
  op::compute_residues(op, residues_, all);
}
Residue ResidueArithmetic::reduced(op::Reduction reduction, DType type, Residue a,
                                   Residue b) const {
  if (reduction == op::Reduction::max) return residues_.larger(a, b);
  return is_integer(type) ? a + b : op::add(a, b);
}
Residue ResidueArithmetic::number(double value) const {
  return op::residue_of(value);
}
Residue ResidueArithmetic::missing(std::uint64_t place) const {
  return residues_.random(random_stream("verify.missing"), 0, 0, place);
}

void DegreeArithmetic::compute(const op::Op& op, op::ResidueTensors all) const {
  op::compute_degrees(op, all);
}
Residue DegreeArithmetic::reduced(op::Reduction, DType type, Residue a, Residue b) const {
  if (is_integer(type)) return a;
  return op::word_of(op::larger(op::degree_of(a), op::degree_of(b)));
}

}  // namespace fourfold::verify
