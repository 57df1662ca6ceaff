// Initial values and digests on CPU; the bits are those of reference/.
#include <atomic>

#include "base/digest_term.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/storage.h"
#include "kernels/tensor_stretches.h"

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
Run digest(std::uint64_t stream, const TensorStretches& stretches, const Problem& problem) {
  return [stream, stretches, count = problem.shapes[0].elements(), threads = problem.threads](
             Tensors operands, Workspace) {
    const T* x = operands[0].as<T>();
    std::atomic<std::uint64_t> total = 0;
    const auto add = [&](std::int64_t local, std::uint64_t global, std::int64_t size) {
      std::uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < size; ++i)
        sum +=
            digest_term(stream, global + static_cast<std::uint64_t>(i), element_bits(x[local + i]));
      total.fetch_add(sum, std::memory_order_relaxed);
    };
    for_ranges(count, team_size(threads, count), element_grain,
               [&](std::int64_t first, std::int64_t last) {
                 stretches.walk(first, last, add, [](std::int64_t, std::int64_t) {});
               });
    *operands[1].as<std::uint64_t>() = total.load(std::memory_order_relaxed);
  };
}

/// value(random numbers, index in the global tensor) in each element, 0 in padding.
template <class Init, class Value>
Run draw_values(const Init& op, const Problem& problem, Value value) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [stream = op.stream, value, count = problem.shapes[1].elements(),
            stretches = TensorStretches(op.part, problem.shapes[1]),
            threads = problem.threads](Tensors operands, Workspace) {
      const Random random(*operands[0].as<std::uint64_t>(), stream);
      T* x = operands[1].as<T>();
      const auto draw = [&](std::int64_t local, std::uint64_t global, std::int64_t size) {
        for (std::int64_t i = 0; i < size; ++i)
          x[local + i] = static_cast<T>(
              static_cast<Sum<T>>(value(random, global + static_cast<std::uint64_t>(i))));
      };
      const auto clear = [&](std::int64_t local, std::int64_t size) {
        std::fill_n(x + local, size, T{});
      };
      for_ranges(
          count, team_size(threads, count), element_grain,
          [&](std::int64_t first, std::int64_t last) { stretches.walk(first, last, draw, clear); });
    };
  });
}

}  // namespace

/// A number takes 33 ns of a core (AMD EPYC, 3 ns of it Philox): libm, whose bits these are, has no
/// vectors. Shared among threads, 10^9 of them take 2.1 s of 16 cores.
Run prepare_row(const op::InitNormal& op, const Problem& problem) {
  return draw_values(op, problem, [stddev = op.stddev](const Random& random, std::uint64_t i) {
    return stddev * random.normal(i, 0);
  });
}

Run prepare_row(const op::InitUniform& op, const Problem& problem) {
  return draw_values(op, problem, [bound = op.bound](const Random& random, std::uint64_t i) {
    return bound * (2 * random.uniform(i, 0) - 1);
  });
}

Run prepare_row(const op::Fill& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  if (problem.dtype == DType::i64 || problem.dtype == DType::u64)
    return fill(count, static_cast<std::int64_t>(op.value), problem.threads);
  return for_storage(problem.dtype, [&]<class T>(As<T>) {
    return fill(count, static_cast<T>(static_cast<Sum<T>>(op.value)), problem.threads);
  });
}

Run prepare_row(const op::Digest& op, const Problem& problem) {
  const TensorStretches stretches(op.part, problem.shapes[0]);
  if (problem.dtype == DType::i64) return digest<std::int64_t>(op.stream.id, stretches, problem);
  return for_storage(problem.dtype,
                     [&]<class T>(As<T>) { return digest<T>(op.stream.id, stretches, problem); });
}

}  // namespace fourfold::kernels::cpu
