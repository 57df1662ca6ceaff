#include "machine/priced_by.h"

#include <algorithm>

namespace fourfold::machine {
namespace {

bool is_beside_products(const op::Op& op) {
  return op::is_counted_in_flops(op::work_class(op)) && !op::product_of(op);
}

}  // namespace

PricedBy priced_by(const Device& device, const op::Op& op, DType dtype) {
  const std::string_view name = op::name(op);
  if (std::ranges::any_of(device.kernels, [&](const MeasuredKernel& kernel) {
        return kernel.op == name && kernel.dtype == dtype;
      }))
    return PricedBy::measured;
  return is_beside_products(op) ? PricedBy::analogy : PricedBy::rates;
}

const std::vector<std::string>& operations_beside_products() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const op::Op& row : op::all_rows())
      if (is_beside_products(row)) found.emplace_back(op::name(row));
    return found;
  }();
  return names;
}

}  // namespace fourfold::machine
