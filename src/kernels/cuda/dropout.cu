// Dropout on the device; op::Dropout says what it computes.
#include "kernels/cuda/dropout.cuh"

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

struct DropoutBody {
  DropoutOfTensor dropout;
  std::int64_t count;
  template <int size>
  __device__ void operator()(std::int64_t first, const float (&in)[1][size],
                             float (&out)[1][size]) const {
    DroppedElements decisions = dropout.decisions();
#pragma unroll
    for (int i = 0; i < size; ++i)
      out[0][i] = first + i < count ? dropout.apply(decisions, first + i, in[0][i]) : 0.F;
  }
};

}  // namespace

Enqueue prepare_row(const op::Dropout& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const DropoutOfTensor dropout(op, problem.shapes[0]);
  return for_element(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      enqueue_map(map_tensors<T>(count, {operands[0].as<T>()}, {operands[3].as<T>()}),
                  DropoutBody{dropout.at(operands, 1, 2), count}, stream);
    };
  });
}

}  // namespace fourfold::kernels::cuda
