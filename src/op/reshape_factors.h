// The factors that two shapes of the same elements have in common.
#pragma once

#include "op/rule.h"

namespace fourfold::op {

/// The factor rule of an op that reads a tensor of shape `from` and gives its elements, in their
/// order, in shape `to`: where both dims of an element are products of common factors, a cut of one
/// is a cut of the other. What they do not have in common is whole. Requires that both shapes have
/// the same number of elements, and no dim without any.
FactorRule reshape_factors(const Shape& from, const Shape& to);

}  // namespace fourfold::op
