// From what the price of a computation on a device comes. Not the price: kernel_s (cluster.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/cluster.h"
#include "op/table.h"

namespace fourfold::machine {

enum class PricedBy : std::uint8_t {
  measured,  // calls of its operation, in this type
  rates,     // the rates are those of such work: of products, or of the memory
  analogy    // it is priced as a product of as many flops, which it is not
};

/// What `kernel_s` goes by for the operation in this type.
PricedBy priced_by(const Device& device, const op::Op& op, DType dtype);

/// Operations that are counted in flops and are no products of matrices, by the names that programs
/// print: of each of them a machine's file says what was measured, or that nothing was.
const std::vector<std::string>& operations_beside_products();

}  // namespace fourfold::machine
