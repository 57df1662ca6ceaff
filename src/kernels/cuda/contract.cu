// The product of matrices by own kernels, op::Contract says what it computes: what runs where there
// is no cuBLASLt, and what it is compared with.
#include "kernels/contract_sizes.h"
#include "kernels/cuda/tiled_product.cuh"

namespace fourfold::kernels::cuda {
namespace {

/// use(matrix) for a matrix whose elements lie side by side along one of both; along the other they
/// are one stride apart.
template <class T, class Use>
void with_matrix(const T* data, std::int64_t count, std::int64_t index_stride, std::int64_t depth,
                 std::int64_t inner_stride, const Use& use) {
  if (inner_stride == 1)
    use(StoredMatrix<T, Contiguous::inner>{data, count, depth, index_stride});
  else
    use(StoredMatrix<T, Contiguous::index>{data, count, depth, inner_stride});
}

template <class T, class Out>
Enqueue prepare_contract(const ContractSizes& sizes, bool accumulate, const ProductPlaces& places) {
  return [=](Tensors operands, Workspace, Stream stream) {
    const Out* const bias = places.bias ? operands[*places.bias].as<Out>() : nullptr;
    sizes.for_each_product(
        operands[places.first].as<T>(), operands[places.second].as<T>(),
        operands[places.out].as<Out>(), [&](const T* a, const T* b, Out* out) {
          with_matrix(
              a, sizes.m, sizes.a_row_stride, sizes.k, sizes.a_inner_stride, [&](const auto& left) {
                with_matrix(b, sizes.n, sizes.b_column_stride, sizes.k, sizes.b_inner_stride,
                            [&](const auto& right) {
                              enqueue_product<T>(left, right,
                                                 ProductOutput<Out>{out, accumulate, bias}, stream);
                            });
              });
        });
  };
}

}  // namespace

Enqueue prepare_row(const op::Contract& op, const Problem& problem) {
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_output<T>(op.unrounded, [&]<class Out>(As<Out>) -> Enqueue {
      return prepare_contract<T, Out>(sizes, op.accumulate, {});
    });
  });
}

Enqueue prepare_with_bias(const op::Contract& op, const Problem& product,
                          const ProductPlaces& places) {
  return for_element(product.dtype, [&]<class T>(As<T>) -> Enqueue {
    return prepare_contract<T, T>(contract_sizes(op, product.shapes), false, places);
  });
}

}  // namespace fourfold::kernels::cuda
