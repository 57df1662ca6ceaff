// op::Gated and its gradient on CPU. R rows, F columns.
#include "kernels/cpu/fetch.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/silu.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// Rows of y as pieces of so many columns: what comes next is asked for piece by piece.
constexpr std::int64_t columns_at_once = 256;

struct GatedSizes {
  std::int64_t rows, columns;
  explicit GatedSizes(const Shape& y) : rows(y.elements(0, y.rank() - 1)), columns(y.back()) {}

  /// body(row, first column, end of the columns) for all pieces, threads sharing rows, or columns
  /// where there are few rows.
  template <class Body>
  void for_pieces(int threads, Body body) const {
    const int team = team_size(threads, rows * columns);
    const std::int64_t pieces = ceil_divide(columns, columns_at_once);
    for_ranges(rows * pieces, team, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t piece = first; piece < last; ++piece) {
        const std::int64_t column = piece % pieces * columns_at_once;
        body(piece / pieces, column, std::min(columns, column + columns_at_once));
      }
    });
  }
  /// Asks for what the piece after this one reads from x and, where it is there, from y_grad.
  template <class T>
  void fetch_next(std::int64_t row, std::int64_t end, const T* x, const T* y_grad) const {
    const bool goes_on = end < columns;
    if (!goes_on && row + 1 == rows) return;
    const std::int64_t next_row = goes_on ? row : row + 1, column = goes_on ? end : 0;
    const std::int64_t count = std::min(columns_at_once, columns - column);
    fetch(x + next_row * 2 * columns + column, count);
    fetch(x + (next_row * 2 + 1) * columns + column, count);
    if (y_grad != nullptr) fetch(y_grad + next_row * columns + column, count);
  }
};

template <class T>
void gated_piece(const T* gate_F, const T* other_F, std::int64_t count, T* y_F) {
#pragma omp simd
  for (std::int64_t f = 0; f < count; ++f) {
    const Sum<T> x = summed(gate_F[f]);
    store(y_F[f], x * silu_gate(x).gate * summed(other_F[f]));
  }
}

/// Gradients may lie on what they are of.
template <class T>
void gated_gradient_piece(const T* gate_F, const T* other_F, const T* y_grad_F, std::int64_t count,
                          T* gate_grad_F, T* other_grad_F) {
#pragma omp simd
  for (std::int64_t f = 0; f < count; ++f) {
    const Sum<T> x = summed(gate_F[f]), other = summed(other_F[f]), grad = summed(y_grad_F[f]);
    const auto [gate, rest] = silu_gate(x);
    store(gate_grad_F[f], grad * other * (gate * (1 + x * rest)));
    store(other_grad_F[f], grad * (x * gate));
  }
}

}  // namespace

Run prepare_row(const op::Gated&, const Problem& problem) {
  const GatedSizes sizes(problem.shapes[1]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T* x_R2F = operands[0].as<T>();
      T* y_RF = operands[1].as<T>();
      sizes.for_pieces(threads, [=](std::int64_t row, std::int64_t first, std::int64_t end) {
        sizes.fetch_next<T>(row, end, x_R2F, nullptr);
        const T* gate = x_R2F + row * 2 * sizes.columns + first;
        gated_piece(gate, gate + sizes.columns, end - first, y_RF + row * sizes.columns + first);
      });
    };
  });
}

Run prepare_row(const op::GatedGradient&, const Problem& problem) {
  const GatedSizes sizes(problem.shapes[1]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T *x_R2F = operands[0].as<T>(), *y_grad_RF = operands[1].as<T>();
      T* x_grad_R2F = operands[2].as<T>();
      sizes.for_pieces(threads, [=](std::int64_t row, std::int64_t first, std::int64_t end) {
        sizes.fetch_next<T>(row, end, x_R2F, y_grad_RF);
        const std::int64_t at = row * 2 * sizes.columns + first;
        gated_gradient_piece(x_R2F + at, x_R2F + at + sizes.columns,
                             y_grad_RF + row * sizes.columns + first, end - first, x_grad_R2F + at,
                             x_grad_R2F + at + sizes.columns);
      });
    };
  });
}

}  // namespace fourfold::kernels::cpu
