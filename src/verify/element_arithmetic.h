// What the elements of programs are while these run (residue_run.h): residues, or degrees that are
// followed in their place.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "op/degrees.h"
#include "op/table.h"

namespace fourfold::verify {

class ElementArithmetic {
 public:
  virtual ~ElementArithmetic() = default;
  /// Computes what a row writes. Throws op::ZeroDivisor.
  virtual void compute(const op::Op& op, op::ResidueTensors all) const = 0;
  virtual op::Residue reduced(op::Reduction reduction, DType type, op::Residue a,
                              op::Residue b) const = 0;
  virtual op::Residue number(double value) const = 0;
  /// What is read where no element of the right kind stands; another one for each place.
  virtual op::Residue missing(std::uint64_t place) const = 0;
};

/// Residues, with the functions of one set of keys.
class ResidueArithmetic : public ElementArithmetic {
 public:
  explicit ResidueArithmetic(const op::Residues& residues) : residues_(residues) {}
  void compute(const op::Op& op, op::ResidueTensors all) const override;
  op::Residue reduced(op::Reduction reduction, DType type, op::Residue a,
                      op::Residue b) const override;
  op::Residue number(double value) const override;
  op::Residue missing(std::uint64_t place) const override;

 private:
  const op::Residues& residues_;
};

/// Degrees of residues (op/degrees.h).
class DegreeArithmetic : public ElementArithmetic {
 public:
  void compute(const op::Op& op, op::ResidueTensors all) const override;
  op::Residue reduced(op::Reduction reduction, DType type, op::Residue a,
                      op::Residue b) const override;
  op::Residue number(double) const override { return op::word_of({}); }
  op::Residue missing(std::uint64_t) const override { return op::word_of({}); }
};

}  // namespace fourfold::verify
