#include "machine/target.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::machine {

ProductSizes product_sizes(const op::Op& op, op::Shapes all) {
  const auto contract = op::product_of(op);
  if (!contract) return {};
  const op::ProductSizes sizes = op::product_sizes(*contract, all);
  return {.layout = sizes.layout, .m = sizes.m, .n = sizes.n, .k = sizes.k};
}

bool fuses(const Target& target, std::string_view name) {
  return std::find(target.fusions.begin(), target.fusions.end(), name) != target.fusions.end();
}

std::optional<std::int64_t> measured_workspace(const std::vector<Choice>& choices,
                                               std::string_view implementation, const op::Op& op,
                                               op::Shapes all, DType dtype) {
  const ProductSizes problem = product_sizes(op, all);
  const auto is_of_it = [&](const Choice& choice) {
    if (!choice.workspace_bytes || choice.implementation != implementation ||
        choice.op != op::name(op) || choice.dtype != dtype)
      return false;
    if (!choice.shapes.empty()) return std::ranges::equal(choice.shapes, all);
    return choice.layout == problem.layout && choice.max_m == problem.m &&
           choice.max_n == problem.n && choice.max_k == problem.k;
  };
  const auto place = std::find_if(choices.begin(), choices.end(), is_of_it);
  return place == choices.end() ? std::nullopt : place->workspace_bytes;
}

const std::string& choose(const Target& target, const op::Op& op, op::Shapes all, DType dtype) {
  const ProductSizes problem = product_sizes(op, all);
  const auto fits = [&](const Choice& choice) {
    return (choice.op == "*" || choice.op == op::name(op)) &&
           (!choice.dtype || *choice.dtype == dtype) &&
           (choice.layout == "*" || choice.layout == problem.layout) && problem.m <= choice.max_m &&
           problem.n <= choice.max_n && problem.k <= choice.max_k &&
           (choice.shapes.empty() || std::ranges::equal(choice.shapes, all)) &&
           (!target.fits || target.fits(choice.implementation, op, all, dtype));
  };
  const auto place = std::find_if(target.choices.begin(), target.choices.end(), fits);
  require(place != target.choices.end(), [&] {
    return format("the target's table has a line for {} in {}", op::name(op), to_string(dtype));
  });
  return place->implementation;
}

}  // namespace fourfold::machine
