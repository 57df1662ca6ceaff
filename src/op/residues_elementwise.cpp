// Residue forms of elementwise rows: one element of each, in the order of elementwise.h, and the
// loop that all share.
#include <array>
#include <utility>

#include "op/elementwise.h"

namespace fourfold::op {
namespace {

Residue element(const Residues& residues, const Gelu&, Residue x) {
  return residues.hash(function_name("gelu"), {x});
}
Residue element(const Residues& residues, const GeluGradient&, Residue x, Residue y_grad) {
  return multiply(y_grad, residues.hash(function_name("gelu_slope"), {x}));
}
Residue element(const Residues& residues, const Silu&, Residue x) {
  return residues.hash(function_name("silu"), {x});
}
Residue element(const Residues& residues, const SiluGradient&, Residue x, Residue y_grad) {
  return multiply(y_grad, residues.hash(function_name("silu_slope"), {x}));
}
Residue element(const Residues& residues, const Relu&, Residue x) {
  return residues.hash(function_name("relu"), {x});
}
Residue element(const Residues& residues, const ReluGradient&, Residue y, Residue y_grad) {
  return multiply(y_grad, residues.hash(function_name("relu_slope"), {y}));
}
Residue element(const Residues&, const Cast&, Residue x) {
  return x;
}
Residue element(const Residues&, const Widen&, Residue x) {
  return x;
}
Residue element(const Residues&, const Add&, Residue a, Residue b) {
  return add(a, b);
}
Residue element(const Residues&, const AddRounded&, Residue a, Residue b) {
  return add(a, b);
}

template <class Row>
void for_each_element(const Row& row, const Residues& residues, ResidueTensors all) {
  constexpr std::size_t reads = Row::rule.num_reads;
  const auto from = [&]<std::size_t... operand>(std::size_t index,
                                                std::index_sequence<operand...>) {
    return element(residues, row, all[operand].elements[index]...);
  };
  const ResidueTensor& y = all[reads];
  for (std::size_t index = 0; index < y.elements.size(); ++index) {
    if constexpr (Row::rule.takes_any_element) {
      static_assert(std::is_same_v<Row, Add>, "the one row that computes with integers");
      if (y.is_integer) {
        y.elements[index] = all[0].elements[index] + all[1].elements[index];
        continue;
      }
    }
    y.elements[index] = from(index, std::make_index_sequence<reads>());
  }
}

}  // namespace

#define FOURFOLD_ROW(Row, work)                                                \
  void Row::residue_form(const Residues& residues, ResidueTensors all) const { \
    for_each_element(*this, residues, all);                                    \
  }
FOURFOLD_ELEMENTWISE_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

}  // namespace fourfold::op
