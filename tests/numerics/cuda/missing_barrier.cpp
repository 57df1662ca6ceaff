// A kernel that lacks a barrier, and the same one with it: what test_numerics_cuda_races must and
// must not report. Instrumented as kernels are.
#include "numerics/cuda/missing_barrier.h"

#include "kernels/cuda/device.cuh"

namespace fourfold::numerics {
namespace {

using namespace kernels::cuda;  // the vocabulary of kernels

template <bool has_barrier>
void turn_around(int* values) {
  __shared__ int shared[64];
  shared[threadIdx.x] = values[threadIdx.x];
  if (has_barrier) __syncthreads();
  values[threadIdx.x] = shared[63 - threadIdx.x];
}

/// Named in the report.
void kernel_without_barrier(int* values) {
  begin_kernel();
  turn_around<false>(values);
}
void kernel_with_barrier(int* values) {
  begin_kernel();
  turn_around<true>(values);
}

}  // namespace

void reverse_64(int* values, Barrier barrier) {
  LaunchShape shape;
  shape.threads = 64;
  launch(barrier == Barrier::there ? kernel_with_barrier : kernel_without_barrier, shape, nullptr,
         values);
}

}  // namespace fourfold::numerics
