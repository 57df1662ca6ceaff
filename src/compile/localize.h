// Makes an op of a logical graph that of one rank. Not its coordinates: see program/bind.h.
#pragma once

#include <functional>

#include "op/table.h"

namespace fourfold::compile {

/// The op with its attributes that say how much of an operand is here (op::Place) set for operands
/// of these local shapes.
op::Op localize(op::Op op, const std::function<Shape(std::size_t operand)>& local_shape);

}  // namespace fourfold::compile
