#include "measure/operands.h"

#include <type_traits>
#include <variant>

namespace fourfold::measure {
namespace {

bool has_documents(const op::Op& op) {
  return std::visit(
      [](const auto& row) {
        if constexpr (requires { row.documents; })
          return row.documents;
        else
          return false;
      },
      op);
}

}  // namespace

std::int64_t integer_bound(const kernels::Problem& problem) {
  if (has_documents(problem.op)) return 1;
  if (const auto* embedding = std::get_if<op::EmbeddingGradient>(&problem.op))
    return embedding->rows;
  if (std::holds_alternative<op::Embedding>(problem.op)) return problem.shapes[1][0];
  if (std::holds_alternative<op::CrossEntropy>(problem.op) ||
      std::holds_alternative<op::CrossEntropyBoth>(problem.op) ||
      std::holds_alternative<op::CrossEntropyGradient>(problem.op))
    return problem.shapes[0].back();
  return 2;
}

}  // namespace fourfold::measure
