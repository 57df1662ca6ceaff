// Reference product of matrices; op::Contract says what it computes.
#include "kernels/contract_sizes.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

template <class T, class Out>
void contract(const T* a, const T* b, const ContractSizes& sizes, bool accumulate, Out* out_MN) {
  for (std::int64_t row = 0; row < sizes.m; ++row) {
    for (std::int64_t column = 0; column < sizes.n; ++column) {
      Sum<T> sum = 0;
      for (std::int64_t inner = 0; inner < sizes.k; ++inner)
        sum +=
            static_cast<Sum<T>>(a[row * sizes.a_row_stride + inner * sizes.a_inner_stride]) *
            static_cast<Sum<T>>(b[inner * sizes.b_inner_stride + column * sizes.b_column_stride]);
      Out& out = out_MN[row * sizes.n + column];
      out = static_cast<Out>(accumulate ? static_cast<Sum<T>>(out) + sum : sum);
    }
  }
}

}  // namespace

Run prepare_row(const op::Contract& op, const Problem& problem) {
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(op.unrounded, [&]<class Out>(As<Out>) -> Run {
      return [sizes, accumulate = op.accumulate](Tensors operands, Workspace) {
        sizes.for_each_product(
            operands[0].as<T>(), operands[1].as<T>(), operands[2].as<Out>(),
            [&](const T* a, const T* b, Out* out) { contract(a, b, sizes, accumulate, out); });
      };
    });
  });
}

}  // namespace fourfold::kernels::reference
