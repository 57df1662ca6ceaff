// One number of a whole tensor on the device: the squared norm, the count of what is not finite,
// the digest; op::SquaredNorm, op::CountNonFinite and op::Digest state the contracts.
//
// Two stages: blocks add up their elements into the workspace, then one block adds up those sums,
// in an order that depends on the size alone.
#include "base/digest_term.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/tensor_stretches.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr int sum_warps = 8;
constexpr unsigned sum_threads = sum_warps * warp_lanes;
constexpr std::int64_t elements_per_thread = 16;

LaunchShape sum_launch(std::int64_t count) {
  constexpr std::int64_t most_blocks = 1024;
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(std::clamp<std::int64_t>(
      ceil_divide(count, sum_threads * elements_per_thread), 1, most_blocks));
  shape.threads = sum_threads;
  return shape;
}

/// All terms are of eight bytes.
std::int64_t bytes_of_sums(const Problem& problem) {
  return static_cast<std::int64_t>(sum_launch(problem.shapes[0].elements()).blocks_x) * 8;
}

template <class T>
struct Square {
  using Sum = double;
  __device__ Sum operator()(const T* x, std::int64_t i) const {
    const auto value = static_cast<double>(to_float(x[i]));
    return value * value;
  }
};

template <class T>
struct NonFinite {
  using Sum = std::int64_t;
  __device__ Sum operator()(const T* x, std::int64_t i) const {
    return isfinite(to_float(x[i])) ? 0 : 1;
  }
};

__device__ std::uint64_t bits_of(const float* x, std::int64_t i) {
  return reinterpret_cast<const std::uint32_t*>(x)[i];
}
__device__ std::uint64_t bits_of(const BFloat16* x, std::int64_t i) {
  return x[i].bits;
}
__device__ std::uint64_t bits_of(const std::int64_t* x, std::int64_t i) {
  return static_cast<std::uint64_t>(x[i]);
}

template <class T>
struct DigestTerm {
  using Sum = std::uint64_t;
  std::uint64_t stream;
  TensorStretches stretches;
  __device__ Sum operator()(const T* x, std::int64_t i) const {
    const auto [element, real] = stretches.element(i);
    return real ? digest_term(stream, static_cast<std::uint64_t>(element), bits_of(x, i)) : 0;
  }
};

template <class T, class Term>
__global__ void sum_of_blocks(const T* x, std::int64_t count, Term term,
                              typename Term::Sum* parts) {
  using Sum = typename Term::Sum;
  __shared__ Sum shared[sum_warps];
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * sum_threads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * sum_threads + threadIdx.x;
  Sum sum = 0;
  for (; i < count; i += step) sum += term(x, i);
  sum = block_sum<sum_warps>(sum, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

template <class Sum>
__global__ void sum_of_parts(const Sum* parts, unsigned count, bool accumulate, Sum* out) {
  __shared__ Sum shared[sum_warps];
  Sum sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += sum_threads) sum += parts[i];
  sum = block_sum<sum_warps>(sum, shared);
  if (threadIdx.x == 0) *out = accumulate ? *out + sum : sum;
}

/// Sums `term` over all elements of operand 0 into operand 1.
template <class T, class Term>
Enqueue tensor_sum(std::int64_t count, const Term& term, bool accumulate) {
  using Sum = typename Term::Sum;
  return [=, shape = sum_launch(count)](Tensors operands, Workspace workspace, Stream stream) {
    auto* parts = reinterpret_cast<Sum*>(workspace.data());
    launch(sum_of_blocks<T, Term>, shape, stream, operands[0].as<T>(), count, term, parts);
    LaunchShape one;
    one.threads = sum_threads;
    launch(sum_of_parts<Sum>, one, stream, parts, shape.blocks_x, accumulate,
           operands[1].as<Sum>());
  };
}

}  // namespace

std::int64_t workspace_bytes(const op::SquaredNorm&, const Problem& problem) {
  return bytes_of_sums(problem);
}
std::int64_t workspace_bytes(const op::CountNonFinite&, const Problem& problem) {
  return bytes_of_sums(problem);
}
std::int64_t workspace_bytes(const op::Digest&, const Problem& problem) {
  return bytes_of_sums(problem);
}

Enqueue prepare_row(const op::SquaredNorm& op, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) {
    return tensor_sum<T>(problem.shapes[0].elements(), Square<T>{}, op.accumulate);
  });
}

Enqueue prepare_row(const op::CountNonFinite& op, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) {
    return tensor_sum<T>(problem.shapes[0].elements(), NonFinite<T>{}, op.accumulate);
  });
}

Enqueue prepare_row(const op::Digest& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const TensorStretches stretches(op.part, problem.shapes[0]);
  if (problem.dtype == DType::i64)
    return tensor_sum<std::int64_t>(count, DigestTerm<std::int64_t>{op.stream.id, stretches},
                                    false);
  return for_element(problem.dtype, [&]<class T>(As<T>) {
    return tensor_sum<T>(count, DigestTerm<T>{op.stream.id, stretches}, false);
  });
}

}  // namespace fourfold::kernels::cuda
