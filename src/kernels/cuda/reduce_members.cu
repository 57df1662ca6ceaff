// Sums and maxima over the buffers of several ranks; reduce_members.h says what they compute. Each
// thread has some elements, and reads them from all members.
#include "kernels/cuda/reduce_members.h"

#include "base/error.h"
#include "kernels/cuda/element.cuh"

namespace fourfold::kernels::cuda {
namespace {

constexpr unsigned member_threads = 256;

struct Members {
  std::uint32_t terms_count, results_count;
  const std::byte* terms[most_members];
  std::byte* results[most_members];
};

/// What an element is reduced as.
template <class T>
__device__ T widened(T value) {
  return value;
}
__device__ inline float widened(BFloat16 value) {
  return to_float(value);
}
template <class T, class Sum>
__device__ T narrowed(Sum value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return from_float<BFloat16>(value);
  else
    return static_cast<T>(value);
}

struct AddMember {
  template <class T>
  __device__ static T both(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));  // as fourfold::wrapping_add
    } else {
      return a + b;
    }
  }
};
struct LargerMember {
  template <class T>
  __device__ static T both(T a, T b) {
    if constexpr (std::is_integral_v<T>) return a < b ? b : a;
    // The second test keeps a NaN in `a`; a NaN in `b` fails the first.
    return b <= a || a != a ? a : b;
  }
};

template <class T, class Op>
__global__ void __launch_bounds__(member_threads)
    reduce_elements(const __grid_constant__ Members members, std::int64_t count) {
  begin_kernel();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) {
    auto sum = widened(reinterpret_cast<const T*>(members.terms[0])[i]);
    for (std::uint32_t term = 1; term < members.terms_count; ++term)
      sum = Op::both(sum, widened(reinterpret_cast<const T*>(members.terms[term])[i]));
    const T result = narrowed<T>(sum);
    for (std::uint32_t each = 0; each < members.results_count; ++each)
      reinterpret_cast<T*>(members.results[each])[i] = result;
  }
}

template <class T>
void enqueue_reduction(const Members& members, std::int64_t count, Reduction reduction,
                       Stream stream) {
  launch(reduction == Reduction::sum ? reduce_elements<T, AddMember>
                                     : reduce_elements<T, LargerMember>,
         stepping_launch(count, member_threads, member_threads), stream, members, count);
}

}  // namespace

void reduce_members(std::span<const std::byte* const> terms, std::span<std::byte* const> results,
                    std::int64_t count, DType type, Reduction reduction, Stream stream) {
  require(!terms.empty() && terms.size() <= most_members && results.size() <= most_members,
          "a reduction has a term, and no more than a launch takes");
  Members members{
      static_cast<std::uint32_t>(terms.size()), static_cast<std::uint32_t>(results.size()), {}, {}};
  for (std::size_t i = 0; i < terms.size(); ++i) members.terms[i] = terms[i];
  for (std::size_t i = 0; i < results.size(); ++i) members.results[i] = results[i];
  switch (type) {
    case DType::f32:
      return enqueue_reduction<float>(members, count, reduction, stream);
    case DType::f64:
      return enqueue_reduction<double>(members, count, reduction, stream);
    case DType::bf16:
      return enqueue_reduction<BFloat16>(members, count, reduction, stream);
    case DType::i32:
      return enqueue_reduction<std::int32_t>(members, count, reduction, stream);
    case DType::i64:
      return enqueue_reduction<std::int64_t>(members, count, reduction, stream);
    case DType::u64:
      return enqueue_reduction<std::uint64_t>(members, count, reduction, stream);
    case DType::u8:
      return enqueue_reduction<std::uint8_t>(members, count, reduction, stream);
  }
  fail_internal("the element type is one of the enumeration");
}

}  // namespace fourfold::kernels::cuda
