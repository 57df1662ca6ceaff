// Initial values and digests on CPU; the bits are those of reference/.
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/digest_term.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

template <class T>
Run fill(std::int64_t count, T value, int threads) {
  return [count, value, threads](Tensors operands, Workspace) {
    T* x = operands[0].as<T>();
    for_ranges(
        count, team_size(threads, count), element_grain,
        [=](std::int64_t first, std::int64_t last) { std::fill(x + first, x + last, value); });
  };
}

/// Addition mod 2^64 is exact in any order.
template <class T>
Run digest(std::uint64_t stream, std::int64_t count, int threads) {
  return [stream, count, threads](Tensors operands, Workspace) {
    const T* x = operands[0].as<T>();
    const int team = team_size(threads, count);
    std::uint64_t sum = 0;
#pragma omp parallel for simd num_threads(team) schedule(static) reduction(+ : sum) if (team > 1)
    for (std::int64_t i = 0; i < count; ++i)
      sum += digest_term(stream, static_cast<std::uint64_t>(i), element_bits(x[i]));
    *operands[1].as<std::uint64_t>() = sum;
  };
}

}  // namespace

Run prepare_row(const op::InitNormal& op, const Problem& problem) {
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [stream = op.stream, stddev = op.stddev, count = problem.shapes[1].elements(),
            threads = problem.threads](Tensors operands, Workspace) {
      const Random random(*operands[0].as<std::uint64_t>(), stream);
      T* x = operands[1].as<T>();
      for_ranges(count, team_size(threads, count), element_grain,
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t i = first; i < last; ++i)
                     x[i] =
                         static_cast<T>(stddev * random.normal(static_cast<std::uint64_t>(i), 0));
                 });
    };
  });
}

Run prepare_row(const op::Fill& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  if (problem.dtype == DType::i64)
    return fill(count, static_cast<std::int64_t>(op.value), problem.threads);
  return for_float(problem.dtype, [&]<class T>(As<T>) {
    return fill(count, static_cast<T>(op.value), problem.threads);
  });
}

Run prepare_row(const op::Digest& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  if (problem.dtype == DType::i64)
    return digest<std::int64_t>(op.stream.id, count, problem.threads);
  return for_float(problem.dtype,
                   [&]<class T>(As<T>) { return digest<T>(op.stream.id, count, problem.threads); });
}

}  // namespace fourfold::kernels::cpu
