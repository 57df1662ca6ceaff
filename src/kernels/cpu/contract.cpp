// Product of matrices by own register tiles, shared among threads: for matrices that caches hold.
// Two threads have rows of out each where they have rows of what comes before and after, so that
// these stay in their cores' caches, or columns; more have windows of both. Gradients of weights
// are cut by inner indices first, and the sums are added.
#include <algorithm>

#include "kernels/contract_sizes.h"
#include "kernels/cpu/block_product.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// One thread's multiply-adds in the time of an element of an elementwise row.
constexpr std::int64_t multiplications = 64;

/// A gradient of a weight sums over tokens, of which each of two threads wrote half: two sums, over
/// the halves, are added, unless the second one would fill half of a second-level cache of 2 MiB or
/// has hardly a tile's work. So it is with any number of threads, for the same bits.
constexpr std::int64_t most_second_bytes = std::int64_t{1} << 20, least_inner = 256;

template <class T>
bool has_second_sum(const ContractSizes& s) {
  return s.is_a_transposed() && s.k >= least_inner &&
         s.m * s.n * static_cast<std::int64_t>(sizeof(T)) <= most_second_bytes;
}

/// Cuts of rows by cuts of columns.
struct Windows {
  int rows, columns;
};

/// How threads share a product: each packs its columns of b and reads its rows of a. Where a is not
/// transposed its rows were mostly written by the thread that has the same ones, which counts the
/// more the fewer threads there are. The work of 16 threads, done on two cores, is 7 % less than
/// where each has all columns.
Windows windows_of(const ContractSizes& s, int parts) {
  const std::int64_t row_cost = s.is_a_transposed() ? 1 : std::max(1, 8 / parts);
  const auto cost = [&](const Windows& cut) {
    return ceil_divide(s.n, cut.columns) + row_cost * ceil_divide(s.m, cut.rows);
  };
  Windows best{parts, 1};
  for (int columns = 2; columns <= parts; ++columns) {
    const Windows cut{parts / columns, columns};
    if (parts % columns == 0 && cost(cut) < cost(best)) best = cut;
  }
  return best;
}

/// The window of the part-th of so many threads.
template <class T>
BlockProduct<T> window_of(BlockProduct<T> whole, int part, int parts) {
  const Windows cut = windows_of(whole.sizes, parts);
  whole.rows = range_of(part / cut.columns, cut.rows, whole.sizes.m, block_tile_rows);
  whole.columns = range_of(part % cut.columns, cut.columns, whole.sizes.n, block_columns<T>);
  return whole;
}

/// The sum over one half of the inner indices, the second one in `second_sum`.
template <class T>
BlockProduct<T> half_of(BlockProduct<T> whole, int half, T* second_sum) {
  const Range inner = range_of(half, 2, whole.sizes.k, 1);
  whole.a += inner.first * whole.sizes.a_inner_stride;
  whole.b += inner.first * whole.sizes.b_inner_stride;
  whole.sizes.k = inner.last - inner.first;
  if (half == 0) return whole;
  whole.out = second_sum;
  whole.accumulate = false;
  return whole;
}

template <class T>
void multiply(const T* a, const T* b, const ContractSizes& s, bool accumulate, int threads,
              std::byte* memory, T* out) {
  Scratch scratch(memory);
  const std::int64_t of_panels = block_panels_elements<T>(s),
                     of_strips = block_strips_elements<T>(s);
  T* const panels = scratch.take<T>(threads * of_panels);
  T* const strips = scratch.take<T>(threads * of_strips);
  const BlockProduct<T> whole{a, b, out, s, {0, s.m}, {0, s.n}, accumulate, panels, strips};
  const int parts = team_size(threads, s.m * s.n * s.k / multiplications);
  const auto compute = [&](BlockProduct<T> own, int part) {
    own.panels = panels + part * of_panels;
    own.strips = strips + part * of_strips;
    multiply_block(own);
  };
  if (!has_second_sum<T>(s))
    return for_parts(parts, [&](int part) { compute(window_of(whole, part, parts), part); });

  T* const second_sum = scratch.take<T>(s.m * s.n);
  const int windows = std::max(1, parts / 2), threads_used = std::min(parts, 2 * windows);
  for_parts(threads_used, [&](int part) {
    const Range tasks = range_of(part, threads_used, 2 * windows, 1);
    for (std::int64_t task = tasks.first; task < tasks.last; ++task) {
      const auto half = static_cast<int>(task / windows);
      const auto window = static_cast<int>(task % windows);
      compute(window_of(half_of(whole, half, second_sum), window, windows), part);
    }
  });
  for_ranges(s.m * s.n, parts, element_grain, [&](std::int64_t first, std::int64_t last) {
#pragma omp simd
    for (std::int64_t i = first; i < last; ++i) out[i] += second_sum[i];
  });
}

}  // namespace

Run prepare_row(const op::Contract& op, const Problem& problem) {
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, accumulate = op.accumulate, threads = problem.threads](Tensors operands,
                                                                          Workspace workspace) {
      sizes.for_each_product(operands[0].as<T>(), operands[1].as<T>(), operands[2].as<T>(),
                             [&](const T* a, const T* b, T* out) {
                               multiply<T>(a, b, sizes, accumulate, threads, workspace.data(), out);
                             });
    };
  });
}

std::int64_t workspace_bytes(const op::Contract& op, const Problem& problem) {
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  const auto bytes = [&]<class T>(As<T>) {
    Scratch scratch(nullptr);
    scratch.take<T>(problem.threads * block_panels_elements<T>(sizes));
    scratch.take<T>(problem.threads * block_strips_elements<T>(sizes));
    if (has_second_sum<T>(sizes)) scratch.take<T>(sizes.m * sizes.n);
    return scratch.used_bytes();
  };
  return problem.dtype == DType::f64 ? bytes(As<double>{}) : bytes(As<float>{});
}

}  // namespace fourfold::kernels::cpu
