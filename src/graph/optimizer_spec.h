// What the update does: filled by config/, read by graph/.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include "op/optimizers.h"

namespace fourfold::graph {

/// One of the op table's optimizers. Weight decay applies to tensors with two or more logical dims
/// (matrices and embeddings), not to biases and gains.
struct OptimizerSpec {
  op::EachOptimizer settings = {};  // those of others say nothing
  std::size_t kind = 0;             // which of them it is
  double weight_decay = 0.1;
  double grad_clip = 1.0;  // largest global gradient norm; 0: no clipping
  bool operator==(const OptimizerSpec&) const = default;

  /// The optimizer of a row; what the row says of decay and of how it is computed is not taken.
  template <class Row>
  static OptimizerSpec of(const Row& row, double weight_decay = 0.1, double grad_clip = 1.0) {
    OptimizerSpec spec{{}, 0, weight_decay, grad_clip};
    std::get<Row>(spec.settings) = row;
    std::size_t kind = 0;
    op::for_each_optimizer([&]<class Other>() {
      if constexpr (std::is_same_v<Row, Other>) spec.kind = kind;
      ++kind;
    });
    return spec;
  }
};

/// visit(row) with the settings of the optimizer that `spec` is: a row of the op table, which may
/// be changed where `spec` may.
template <class Spec, class Visit>
void visit_optimizer(Spec& spec, Visit&& visit) {
  std::size_t kind = 0;
  std::apply([&](auto&... row) { ((kind++ == spec.kind ? visit(row) : void()), ...); },
             spec.settings);
}

}  // namespace fourfold::graph
