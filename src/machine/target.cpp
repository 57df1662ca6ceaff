#include "machine/target.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::machine {

ProductSizes product_sizes(const op::Op& op, op::Shapes all) {
  const auto matmul = op::product_of(op);
  if (!matmul) return {};
  const auto a_rows = static_cast<std::size_t>(matmul->a_rows),
             b_rows = static_cast<std::size_t>(matmul->b_rows);
  ProductSizes problem;
  problem.layout = std::string(matmul->transpose_a ? "t" : "n") + (matmul->transpose_b ? "t" : "n");
  const std::int64_t a_row_count = all[0].elements(0, a_rows),
                     a_columns = all[0].elements(a_rows, all[0].rank());
  const std::int64_t b_row_count = all[1].elements(0, b_rows),
                     b_columns = all[1].elements(b_rows, all[1].rank());
  problem.m = matmul->transpose_a ? a_columns : a_row_count;
  problem.k = matmul->transpose_a ? a_row_count : a_columns;
  problem.n = matmul->transpose_b ? b_row_count : b_columns;
  return problem;
}

bool fuses(const Target& target, std::string_view row) {
  return std::find(target.fusions.begin(), target.fusions.end(), row) != target.fusions.end();
}

std::optional<std::int64_t> measured_workspace(const std::vector<Choice>& choices,
                                               std::string_view implementation, const op::Op& op,
                                               op::Shapes all, DType dtype) {
  const ProductSizes problem = product_sizes(op, all);
  const auto is_of_it = [&](const Choice& choice) {
    return choice.workspace_bytes && choice.implementation == implementation &&
           choice.op == op::name(op) && choice.dtype == dtype && choice.layout == problem.layout &&
           choice.max_m == problem.m && choice.max_n == problem.n && choice.max_k == problem.k;
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
           (!target.fits || target.fits(choice.implementation, op, all, dtype));
  };
  const auto place = std::find_if(target.choices.begin(), target.choices.end(), fits);
  require(place != target.choices.end(),
          format("the target's table has a line for {} in {}", op::name(op), to_string(dtype)));
  return place->implementation;
}

}  // namespace fourfold::machine
