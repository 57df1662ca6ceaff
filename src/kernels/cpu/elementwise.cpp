// Bias and selection of a position on CPU, and the loop of the rows of op/elementwise.h. R rows, N
// elements of a bias.
#include <algorithm>
#include <utility>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/fetch.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

template <class T>
void add_bias(const T* x_RN, const T* bias_N, std::int64_t rows, std::int64_t columns, int threads,
              T* y_RN) {
  for_ranges(rows, team_size(threads, rows * columns), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) {
                 const T* x = x_RN + row * columns;
                 T* y = y_RN + row * columns;
#pragma omp simd
                 for (std::int64_t n = 0; n < columns; ++n)
                   store(y[n], summed(x[n]) + summed(bias_N[n]));
               }
             });
}

/// y[i] = function(i) for i in [first, last). A function of its own: inside a lambda the compiler
/// reloads what was captured.
template <class T, class Function>
void map_range(std::int64_t first, std::int64_t last, Function function, T* y) {
#pragma omp simd
  for (std::int64_t i = first; i < last; ++i) store(y[i], function(i));
}

/// y[i] = function(i), threads sharing i; fetch_from(i) asks for the `elements_at_once` elements
/// from i on of whatever the function reads.
constexpr std::int64_t elements_at_once = 256;
template <class T, class Function, class Fetch>
void map_elements(std::int64_t count, int threads, Function function, Fetch fetch_from, T* y) {
  constexpr std::int64_t ahead = fetch_ahead_bytes / static_cast<std::int64_t>(sizeof(T));
  for_ranges(count, team_size(threads, count), element_grain,
             [&](std::int64_t first, std::int64_t last) {
               for (; first < last; first += elements_at_once) {
                 if (first + ahead + elements_at_once <= last) fetch_from(first + ahead);
                 map_range(first, std::min(last, first + elements_at_once), function, y);
               }
             });
}

using kernels::element;

template <class T, class Row, std::size_t... read>
Run map_rows(const Row& row, const Problem& problem, std::index_sequence<read...>) {
  return [row, count = problem.shapes[0].elements(), threads = problem.threads](Tensors operands,
                                                                                Workspace) {
    const auto at =
        [row, ... in = operands[read].as<const Stored<T, Row::rule.operands[read].element>>()](
            std::int64_t i) { return element(Math{}, row, static_cast<Computing<T>>(in[i])...); };
    const auto fetch_from =
        [... in = operands[read].as<const Stored<T, Row::rule.operands[read].element>>()](
            std::int64_t i) { (fetch(in + i, elements_at_once), ...); };
    using Out = Stored<T, Row::rule.operands[sizeof...(read)].element>;
    map_elements<Out>(count, threads, at, fetch_from, operands[sizeof...(read)].as<Out>());
  };
}

template <class Row>
Run prepare_elementwise(const Row& row, const Problem& problem) {
  const auto make = [&]<class T>(As<T>) -> Run {
    return map_rows<T>(row, problem, std::make_index_sequence<Row::rule.num_reads>());
  };
  // Sums mod 2^64 are the same bits with and without sign.
  if constexpr (Row::rule.takes_any_element)
    if (problem.dtype == DType::i64 || problem.dtype == DType::u64)
      return make(As<std::uint64_t>{});
  return for_storage(storage_of(op::is_wide(row), problem.dtype), make);
}

}  // namespace

Run prepare_row(const op::AddBias&, const Problem& problem) {
  const std::int64_t columns = problem.shapes[1].elements();
  const std::int64_t rows = problem.shapes[0].elements() / columns;
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows, columns, threads = problem.threads](Tensors operands, Workspace) {
      add_bias<T>(operands[0].as<T>(), operands[1].as<T>(), rows, columns, threads,
                  operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::BiasGradient& op, const Problem& problem) {
  const std::int64_t columns = problem.shapes[1].elements();
  const std::int64_t rows = problem.shapes[0].elements() / columns;
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows, columns, accumulate = op.accumulate, threads = problem.threads](Tensors operands,
                                                                                  Workspace) {
      const T* y_grad_RN = operands[0].as<T>();
      const auto term = [=](std::int64_t row, std::int64_t n) {
        return summed(y_grad_RN[row * columns + n]);
      };
      sum_columns<Sum<T>>(rows, columns, accumulate, threads, term, operands[1].as<Sum<T>>());
    };
  });
}

#define FOURFOLD_ROW(Row, work)                                 \
  Run prepare_row(const op::Row& row, const Problem& problem) { \
    return prepare_elementwise(row, problem);                   \
  }
FOURFOLD_ELEMENTWISE_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

Run prepare_row(const op::TakePosition& op, const Problem& problem) {
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Run {
    return [shape = problem.shapes[0]](Tensors operands, Workspace) {
      const std::int64_t index = *operands[1].as<std::int32_t>();
      for (std::int64_t sample = 0; sample < shape[0]; ++sample)
        std::copy_n(operands[0].as<T>() + (sample * shape[1] + index) * shape[2], shape[2],
                    operands[2].as<T>() + sample * shape[2]);
    };
  });
}

}  // namespace fourfold::kernels::cpu
