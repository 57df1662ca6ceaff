// How likely it is that two different functions of random numbers agree where rows are computed
// over residues: a polynomial of degree d that is not zero is zero at a random place of a field of
// p elements with a probability of at most d / p (Schwartz 1980, Zippel 1979). Degrees are followed
// through rows in place of the residues themselves.
#pragma once

#include "op/table.h"

namespace fourfold::op {

/// The degree of a value as a polynomial in what has been hashed or drawn since; and `before`, the
/// sum of the degrees at which values on the way to it were hashed: hashes of two values agree if
/// the values do. Both are upper bounds; a quotient counts with both of its sides.
struct Degree {
  double degree = 0, before = 0;
};

/// A degree as an element of a tensor. Its seven digits are enough.
Residue word_of(const Degree& degree);
Degree degree_of(Residue word);
/// The larger one of each.
Degree larger(const Degree& a, const Degree& b);

/// Computes the degrees of what a row that stands for itself writes from those of what it reads.
/// Elements of integers are not looked at. Every element of an output has the degree of the
/// largest.
void compute_degrees(const Op& op, ResidueTensors all);

}  // namespace fourfold::op
