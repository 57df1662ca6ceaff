// Weights rounded for the computation, one or all of them in one launch; op::Cast and op::CastList
// say what they compute.
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/tensor_list.cuh"

namespace fourfold::kernels::cuda {
namespace {

constexpr unsigned cast_threads = 256;
/// Elements that a block rounds, a pack of T in each access of a thread.
template <class T>
constexpr std::int64_t block_elements = std::int64_t{cast_threads} * 4 * pack_size<T>;

/// y = x rounded to T.
template <class T>
struct CastTensor {
  const float* x;
  T* y;
  std::int64_t count;
  unsigned first_block;
  bool aligned;
};

template <class T>
__global__ void cast(const __grid_constant__ TensorList<CastTensor<T>> list) {
  begin_kernel();
  constexpr int size = pack_size<T>;
  const CastTensor<T>& of = entry_of_block(list, blockIdx.x);
  const std::int64_t begin =
      static_cast<std::int64_t>(blockIdx.x - of.first_block) * block_elements<T>;
  const std::int64_t end =
      begin + block_elements<T> < of.count ? begin + block_elements<T> : of.count;
  constexpr std::int64_t step = std::int64_t{cast_threads} * size;
  for (std::int64_t first = begin + std::int64_t{threadIdx.x} * size; first < end; first += step) {
    const std::int64_t left = of.count - first;
    const bool whole = of.aligned && left >= size;
    float values[size];
    load_pack_of<T>(of.x + first, whole, left, values);
    store_pack<T>(values, whole, left, of.y + first);
  }
}

/// Casts the first `tensors` operands into the others.
template <class T>
void enqueue_casts(Tensors operands, std::size_t tensors, Stream stream) {
  TensorList<CastTensor<T>> list;
  const auto flush = [&] {
    launch(cast<T>, list.launch_shape(cast_threads), stream, list);
    list.clear();
  };
  for (std::size_t i = 0; i < tensors; ++i) {
    const Tensor &x = operands[i], &y = operands[tensors + i];
    const std::int64_t count = x.elements();
    if (count == 0) continue;
    if (list.is_full()) flush();
    list.add({x.as<float>(), y.as<T>(), count, 0, are_aligned(x.data, y.data)},
             ceil_divide(count, block_elements<T>));
  }
  flush();
}

Enqueue prepare_casts(DType dtype, std::size_t tensors) {
  return for_element(dtype, [&]<class T>(As<T>) -> Enqueue {
    return [tensors](Tensors operands, Workspace, Stream stream) {
      enqueue_casts<T>(operands, tensors, stream);
    };
  });
}

}  // namespace

Enqueue prepare_cast(const Problem& problem) {
  return prepare_casts(problem.dtype, 1);
}

Enqueue prepare_row(const op::CastList& op, const Problem& problem) {
  return prepare_casts(problem.dtype, static_cast<std::size_t>(op.count()));
}

}  // namespace fourfold::kernels::cuda
