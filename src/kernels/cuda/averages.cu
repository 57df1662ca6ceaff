// The moving averages of weights, of one tensor or of all of them in one launch;
// op::MovingAverage and op::MovingAverageList say what they compute.
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/tensor_list.cuh"

namespace fourfold::kernels::cuda {
namespace {

constexpr unsigned average_threads = 256;
/// A block goes over so many packs of a tensor.
constexpr std::int64_t packs_of_block = std::int64_t{average_threads} * 4;

template <class T>
struct AveragedTensor {
  const T* weight;
  T* average;
  std::int64_t count;
  unsigned first_block;
  bool aligned;
};

template <class T>
__global__ void move_averages(const __grid_constant__ TensorList<AveragedTensor<T>> list,
                              float decay, float share, const std::int64_t* applied) {
  begin_kernel();
  if (*applied == 0) return;
  const AveragedTensor<T>& of = entry_of_block(list, blockIdx.x);
  constexpr int size = pack_size<T>;
  const std::int64_t packs = (of.count + size - 1) / size;
  const std::int64_t begin =
      static_cast<std::int64_t>(blockIdx.x - of.first_block) * packs_of_block;
  const std::int64_t end = begin + packs_of_block < packs ? begin + packs_of_block : packs;
#pragma unroll 4
  for (std::int64_t pack = begin + threadIdx.x; pack < end; pack += average_threads) {
    const std::int64_t first = pack * size, left = of.count - first;
    const bool whole = of.aligned && left >= size;
    float weight[size], average[size];
    load_pack<T>(of.weight + first, whole, left, weight);
    load_pack<T>(of.average + first, whole, left, average);
#pragma unroll
    for (int i = 0; i < size; ++i) average[i] = decay * average[i] + share * weight[i];
    store_pack<T>(average, whole, left, of.average + first);
  }
}

/// Operands of a row: `applied`, and the first of `tensors` weights and of as many averages.
struct AveragePlaces {
  std::size_t tensors, applied, first_weight, first_average;
};

template <class T>
void enqueue_averages(double decay, const AveragePlaces& places, Tensors operands, Stream stream) {
  TensorList<AveragedTensor<T>> list;
  const auto flush = [&] {
    launch(move_averages<T>, list.launch_shape(average_threads), stream, list,
           static_cast<float>(decay), static_cast<float>(1 - decay),
           operands[places.applied].as<std::int64_t>());
    list.clear();
  };
  for (std::size_t i = 0; i < places.tensors; ++i) {
    const Tensor &weight = operands[places.first_weight + i],
                 &average = operands[places.first_average + i];
    const std::int64_t count = weight.elements();
    if (count == 0) continue;
    if (list.is_full()) flush();
    list.add({weight.as<T>(), average.as<T>(), count, 0, are_aligned(weight.data, average.data)},
             ceil_divide(ceil_divide(count, pack_size<T>), packs_of_block));
  }
  flush();
}

Enqueue prepare_averages(double decay, const AveragePlaces& places, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [decay, places](Tensors operands, Workspace, Stream stream) {
      enqueue_averages<T>(decay, places, operands, stream);
    };
  });
}

}  // namespace

Enqueue prepare_row(const op::MovingAverage& op, const Problem& problem) {
  return prepare_averages(
      op.decay, {.tensors = 1, .applied = 1, .first_weight = 0, .first_average = 2}, problem);
}

Enqueue prepare_row(const op::MovingAverageList& op, const Problem& problem) {
  const auto tensors = static_cast<std::size_t>(op.count());
  return prepare_averages(
      op.decay, {.tensors = tensors, .applied = 0, .first_weight = 1, .first_average = 1 + tensors},
      problem);
}

}  // namespace fourfold::kernels::cuda
