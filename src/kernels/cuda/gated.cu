// op::Gated and its gradient on the device. R rows, F columns.
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr unsigned gated_threads = 256;

struct GatedSizes {
  std::int64_t count, columns;  // of y
  explicit GatedSizes(const Shape& y) : count(y.elements()), columns(y.back()) {}
};

/// Calls body(place in y, place of the gate in x, what is there) for each pack of y: whole ones,
/// none of which reaches over two rows, or single elements.
template <bool whole, class T, class Body>
__device__ void for_gates(const GatedSizes& sizes, Body body) {
  constexpr int size = whole ? pack_size<T> : 1;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * size;
  std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * size;
  for (; at < sizes.count; at += step) {
    const std::int64_t gate = at + at / sizes.columns * sizes.columns;
    if constexpr (whole)
      body(at, gate, WholePack{true});
    else
      body(at, gate, PackPart{1, false});
  }
}

template <bool whole, class T>
__global__ void gated(const T* x_R2F, GatedSizes sizes, T* y_RF) {
  begin_kernel();
  for_gates<whole, T>(sizes, [&](std::int64_t at, std::int64_t gate, auto there) {
    const auto x = load_packs<T>(x_R2F + gate, there),
               other = load_packs<T>(x_R2F + gate + sizes.columns, there);
    float y[pack_size<T>];
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) y[i] = element(Math(), op::Silu(), x[i]) * other[i];
    store_packs<T>(y, there, y_RF + at);
  });
}

/// x_grad may be x.
template <bool whole, class T>
__global__ void gated_gradient(const T* x_R2F, const T* y_grad_RF, GatedSizes sizes,
                               T* x_grad_R2F) {
  begin_kernel();
  for_gates<whole, T>(sizes, [&](std::int64_t at, std::int64_t gate, auto there) {
    const auto x = load_packs<T>(x_R2F + gate, there),
               other = load_packs<T>(x_R2F + gate + sizes.columns, there),
               grad = load_packs<T>(y_grad_RF + at, there);
    float of_gate[pack_size<T>], of_other[pack_size<T>];
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) {
      of_gate[i] = element(Math(), op::SiluGradient(), x[i], grad[i] * other[i]);
      of_other[i] = grad[i] * element(Math(), op::Silu(), x[i]);
    }
    store_packs<T>(of_gate, there, x_grad_R2F + gate);
    store_packs<T>(of_other, there, x_grad_R2F + gate + sizes.columns);
  });
}

template <class T, class... Pointers>
bool has_whole_packs(const GatedSizes& sizes, Pointers... pointers) {
  return sizes.columns % pack_size<T> == 0 && are_aligned(pointers...);
}
LaunchShape gated_launch(const GatedSizes& sizes, int pack) {
  return stepping_launch(sizes.count, gated_threads, gated_threads * pack);
}

}  // namespace

Enqueue prepare_row(const op::Gated&, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes = GatedSizes(problem.shapes[1])](Tensors operands, Workspace, Stream stream) {
      const T* x = operands[0].as<T>();
      T* y = operands[1].as<T>();
      if (has_whole_packs<T>(sizes, x, y))
        launch(gated<true, T>, gated_launch(sizes, pack_size<T>), stream, x, sizes, y);
      else
        launch(gated<false, T>, gated_launch(sizes, 1), stream, x, sizes, y);
    };
  });
}

Enqueue prepare_row(const op::GatedGradient&, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes = GatedSizes(problem.shapes[1])](Tensors operands, Workspace, Stream stream) {
      const T *x = operands[0].as<T>(), *y_grad = operands[1].as<T>();
      T* x_grad = operands[2].as<T>();
      if (has_whole_packs<T>(sizes, x, y_grad, x_grad))
        launch(gated_gradient<true, T>, gated_launch(sizes, pack_size<T>), stream, x, y_grad, sizes,
               x_grad);
      else
        launch(gated_gradient<false, T>, gated_launch(sizes, 1), stream, x, y_grad, sizes, x_grad);
    };
  });
}

}  // namespace fourfold::kernels::cuda
