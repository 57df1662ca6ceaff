// The product of matrices by own kernels, op::Contract says what it computes: what runs where there
// is no cuBLASLt, and what it is compared with.
#include "kernels/contract_sizes.h"
#include "kernels/cuda/tiled_product.cuh"

namespace fourfold::kernels::cuda {

Enqueue prepare_row(const op::Contract& op, const Problem& problem) {
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_output<T>(op.unrounded, [&]<class Out>(As<Out>) -> Enqueue {
      return [=, accumulate = op.accumulate](Tensors operands, Workspace, Stream stream) {
        sizes.for_each_product(
            operands[0].as<T>(), operands[1].as<T>(), operands[2].as<Out>(),
            [&](const T* a, const T* b, Out* out) {
              enqueue_product<T>(
                  StoredMatrix<T>{a, sizes.m, sizes.a_row_stride, sizes.k, sizes.a_inner_stride},
                  StoredMatrix<T>{b, sizes.n, sizes.b_column_stride, sizes.k, sizes.b_inner_stride},
                  accumulate, out, stream);
            });
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
