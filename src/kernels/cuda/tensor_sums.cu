// One number of a whole tensor on the device: the squared norm, the digest; op::SquaredNorm and
// op::Digest say what they compute.
//
// Two stages: blocks add up their elements into the workspace, then one block adds up those sums,
// in an order that depends on the size alone. Norms are of several tensors at once.
#include "base/digest_term.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/tensor_list.cuh"
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

struct Square {
  using Sum = double;
  static __device__ Sum of(float x) { return static_cast<double>(x) * static_cast<double>(x); }
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
  begin_kernel();
  using Sum = typename Term::Sum;
  __shared__ Sum shared[sum_warps];
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * sum_threads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * sum_threads + threadIdx.x;
  Sum sum = 0;
  for (; i < count; i += step) sum += term(x, i);
  sum = block_sum<sum_warps>(sum, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

/// The sum of the parts, for every thread of a block.
template <class Sum>
__device__ Sum sum_of_parts(const Sum* parts, unsigned count) {
  __shared__ Sum shared[sum_warps];
  Sum sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += sum_threads) sum += parts[i];
  return block_sum<sum_warps>(sum, shared);
}

template <class Sum>
__global__ void add_parts(const Sum* parts, unsigned count, Sum* out) {
  begin_kernel();
  const Sum sum = sum_of_parts(parts, count);
  if (threadIdx.x == 0) *out = sum;
}

/// Sums `term` over all elements of operand 0 into operand 1.
template <class T, class Term>
Enqueue tensor_sum(std::int64_t count, const Term& term) {
  using Sum = typename Term::Sum;
  return [=, shape = sum_launch(count)](Tensors operands, Workspace workspace, Stream stream) {
    auto* parts = reinterpret_cast<Sum*>(workspace.data());
    launch(sum_of_blocks<T, Term>, shape, stream, operands[0].as<T>(), count, term, parts);
    LaunchShape one;
    one.threads = sum_threads;
    launch(add_parts<Sum>, one, stream, parts, shape.blocks_x, operands[1].as<Sum>());
  };
}

// --- one number of several tensors

/// One tensor of a TensorList.
template <class T>
struct SummedTensor {
  const T* x;
  std::int64_t count;
  unsigned first_block;
  bool aligned;
};

/// Packs of elements that one thread sums, in turn with the others of its block.
constexpr std::int64_t packs_per_thread = 16;
constexpr std::int64_t packs_per_sum = sum_threads * packs_per_thread;

template <class T>
std::int64_t sum_blocks(std::int64_t count) {
  return ceil_divide(ceil_divide(count, pack_size<T>), packs_per_sum);
}

/// The sum of each block's elements.
template <class T, class Term>
__global__ void sum_of_list(const __grid_constant__ TensorList<SummedTensor<T>> list,
                            typename Term::Sum* parts) {
  begin_kernel();
  using Sum = typename Term::Sum;
  __shared__ Sum shared[sum_warps];
  const SummedTensor<T>& of = entry_of_block(list, blockIdx.x);
  constexpr int size = pack_size<T>;
  const std::int64_t packs = (of.count + size - 1) / size;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - of.first_block) * packs_per_sum;
  const std::int64_t end = begin + packs_per_sum < packs ? begin + packs_per_sum : packs;
  Sum sum = 0;
  for (std::int64_t pack = begin + threadIdx.x; pack < end; pack += sum_threads) {
    const std::int64_t first = pack * size, count = of.count - first;
    float x[size];  // zeros after the end, which add nothing to any sum
    load_pack<T>(of.x + first, of.aligned && count >= size, count, x);
    for (int i = 0; i < size; ++i) sum += Term::of(x[i]);
  }
  sum = block_sum<sum_warps>(sum, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

/// The sum of each tensor: one block for each.
template <class T, class Sum>
__global__ void sum_of_each(const __grid_constant__ TensorList<SummedTensor<T>> list,
                            const Sum* parts, Sum* sums) {
  begin_kernel();
  const auto tensor = static_cast<int>(blockIdx.x);
  const unsigned begin = list.entries[tensor].first_block,
                 end = tensor + 1 < list.count ? list.entries[tensor + 1].first_block : list.blocks;
  const Sum sum = sum_of_parts(parts + begin, end - begin);
  if (threadIdx.x == 0) sums[tensor] = sum;
}

/// In turn, so that the bits are those of one tensor after another.
template <class Sum>
__global__ void add_tensors(const Sum* sums, std::int64_t count, bool accumulate, Sum* out) {
  begin_kernel();
  if (threadIdx.x != 0) return;
  Sum sum = accumulate ? *out : 0;
  for (std::int64_t i = 0; i < count; ++i) sum += sums[i];
  *out = sum;
}

/// Terms, all of eight bytes: of each block, and of each tensor.
struct ListTerms {
  std::int64_t blocks = 0, tensors = 0;

  explicit ListTerms(const Problem& problem) {
    require(problem.dtype == DType::f32 || problem.dtype == DType::bf16, "sums of f32 or bf16");
    for (const Shape& x : std::span(problem.shapes).first(problem.shapes.size() - 1)) {
      if (x.elements() == 0) continue;
      blocks += problem.dtype == DType::f32 ? sum_blocks<float>(x.elements())
                                            : sum_blocks<BFloat16>(x.elements());
      ++tensors;
    }
  }
  std::int64_t bytes() const { return 8 * (blocks + tensors); }
};

/// Launches the sums of tensors, as many at a time as a launch takes.
template <class T, class Term>
class ListSums {
 public:
  using Sum = typename Term::Sum;
  ListSums(Sum* parts, Sum* sums, Stream stream) : parts_(parts), sums_(sums), stream_(stream) {}

  void add(const Tensor& x) {
    if (list_.is_full()) flush();
    list_.add({x.as<T>(), x.elements(), 0, are_aligned(x.data)}, sum_blocks<T>(x.elements()));
  }
  void flush() {
    LaunchShape shape = list_.launch_shape(sum_threads);
    launch(sum_of_list<T, Term>, shape, stream_, list_, parts_);
    shape.blocks_x = static_cast<unsigned>(list_.count);
    launch(sum_of_each<T, Sum>, shape, stream_, list_, parts_, sums_);
    parts_ += list_.blocks;
    sums_ += list_.count;
    list_.clear();
  }

 private:
  Sum *parts_, *sums_;
  Stream stream_;
  TensorList<SummedTensor<T>> list_;
};

/// Sums Term over all elements of all operands but the last into the last.
template <class T, class Term>
Enqueue list_sum(const Problem& problem, bool accumulate) {
  using Sum = typename Term::Sum;
  return [terms = ListTerms(problem), accumulate](Tensors operands, Workspace workspace,
                                                  Stream stream) {
    auto* parts = reinterpret_cast<Sum*>(workspace.data());
    Sum* sums = parts + terms.blocks;
    ListSums<T, Term> launches(parts, sums, stream);
    for (const Tensor& x : operands.first(operands.size() - 1))
      if (x.elements() != 0) launches.add(x);
    launches.flush();
    LaunchShape one;
    one.threads = warp_lanes;
    launch(add_tensors<Sum>, one, stream, sums, terms.tensors, accumulate,
           operands.back().as<Sum>());
  };
}

}  // namespace

std::int64_t workspace_bytes(const op::SquaredNorm&, const Problem& problem) {
  return ListTerms(problem).bytes();
}
std::int64_t workspace_bytes(const op::Digest&, const Problem& problem) {
  return bytes_of_sums(problem);
}

Enqueue prepare_row(const op::SquaredNorm& op, const Problem& problem) {
  return for_element(problem.dtype,
                     [&]<class T>(As<T>) { return list_sum<T, Square>(problem, op.accumulate); });
}

Enqueue prepare_row(const op::Digest& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const TensorStretches stretches(op.part, problem.shapes[0]);
  if (problem.dtype == DType::i64)
    return tensor_sum<std::int64_t>(count, DigestTerm<std::int64_t>{op.stream.id, stretches});
  return for_element(problem.dtype, [&]<class T>(As<T>) {
    return tensor_sum<T>(count, DigestTerm<T>{op.stream.id, stretches});
  });
}

}  // namespace fourfold::kernels::cuda
