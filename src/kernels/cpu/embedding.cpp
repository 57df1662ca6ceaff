// Token and position embeddings and their gradients on CPU. B batch, T time, C channels, V rows of
// the token table, P rows of the position table, N = B T.
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/document_starts.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

struct TableSizes {
  std::int64_t tokens, rows, channels, first_row;
  /// Row of the table for a token, or -1 where another table holds it.
  std::int64_t row_of(std::int32_t token) const {
    const std::int64_t row = token - first_row;
    return row >= 0 && row < rows ? row : -1;
  }
};

template <class T>
void embedding(const std::int32_t* tokens_N, const T* table_VC, const TableSizes& sizes,
               int threads, T* y_NC) {
  const std::int64_t channels = sizes.channels;
  for_ranges(sizes.tokens, team_size(threads, sizes.tokens * channels), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t token = first; token < last; ++token) {
                 const std::int64_t row = sizes.row_of(tokens_N[token]);
                 T* y = y_NC + token * channels;
                 if (row < 0)
                   std::fill_n(y, channels, T{});
                 else
                   std::copy_n(table_VC + row * channels, channels, y);
               }
             });
}

/// Threads share channels, so that each row sums its tokens in their order.
template <class T>
void embedding_gradient(const std::int32_t* tokens_N, const T* y_grad_NC, const TableSizes& sizes,
                        bool accumulate, int threads, Sum<T>* table_grad_VC) {
  const std::int64_t channels = sizes.channels;
  const int team = team_size(threads, (sizes.tokens + sizes.rows) * channels);
  for_ranges(channels, team, element_grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = 0; !accumulate && row < sizes.rows; ++row)
      std::fill_n(table_grad_VC + row * channels + first, last - first, Sum<T>{0});
    for (std::int64_t token = 0; token < sizes.tokens; ++token) {
      const std::int64_t row = sizes.row_of(tokens_N[token]);
      if (row < 0) continue;
      const T* grad = y_grad_NC + token * channels;
      Sum<T>* sum = table_grad_VC + row * channels;
#pragma omp simd
      for (std::int64_t c = first; c < last; ++c) sum[c] += summed(grad[c]);
    }
  });
}

template <class T, class Y>
void add_positions(const T* x_BTC, const T* table_PC, std::int64_t first_position,
                   const DocumentStarts& documents, const Shape& shape, int threads, Y* y_BTC) {
  const std::int64_t time = shape[1], channels = shape[2];
  for_ranges(shape[0] * time, team_size(threads, shape[0] * time * channels), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) {
                 const T* x = x_BTC + row * channels;
                 const std::int64_t t = row % time, start = documents.first_key(row / time, t);
                 const T* position = table_PC + (first_position + t - start) * channels;
                 Y* y = y_BTC + row * channels;
#pragma omp simd
                 for (std::int64_t c = 0; c < channels; ++c)
                   store(y[c], summed(x[c]) + summed(position[c]));
               }
             });
}

/// The gradient of positions that restart: that of an embedding of positions. Threads share
/// channels, so that each row sums its tokens in their order.
template <class T>
void restarted_positions_gradient(const T* y_grad_BTC, const DocumentStarts& documents,
                                  const Shape& shape, const op::PositionsGradient& op, int threads,
                                  Sum<T>* table_grad_PC) {
  const std::int64_t tokens = shape[0] * shape[1], channels = shape[2];
  const int team = team_size(threads, (tokens + op.rows) * channels);
  for_ranges(channels, team, element_grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = 0; !op.accumulate && row < op.rows; ++row)
      std::fill_n(table_grad_PC + row * channels + first, last - first, Sum<T>{0});
    for (std::int64_t token = 0; token < tokens; ++token) {
      const std::int64_t t = token % shape[1];
      const std::int64_t row = op.first + t - documents.first_key(token / shape[1], t);
      const T* grad = y_grad_BTC + token * channels;
      Sum<T>* sum = table_grad_PC + row * channels;
#pragma omp simd
      for (std::int64_t c = first; c < last; ++c) sum[c] += summed(grad[c]);
    }
  });
}

Run prepare_restarted(const op::PositionsGradient& op, const Problem& problem) {
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Run {
    return [op, shape = problem.shapes[0], threads = problem.threads](Tensors operands, Workspace) {
      restarted_positions_gradient<T>(operands[0].as<T>(), document_starts(op, operands, 1), shape,
                                      op, threads, operands.back().as<Sum<T>>());
    };
  });
}

}  // namespace

Run prepare_row(const op::Embedding& op, const Problem& problem) {
  const TableSizes sizes{problem.shapes[0].elements(), problem.shapes[1][0], problem.shapes[1][1],
                         op.first_row};
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      embedding<T>(operands[0].as<std::int32_t>(), operands[1].as<T>(), sizes, threads,
                   operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::EmbeddingGradient& op, const Problem& problem) {
  const TableSizes sizes{problem.shapes[0].elements(), op.rows, problem.shapes[1].back(),
                         op.first_row};
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Run {
    return [sizes, accumulate = op.accumulate, threads = problem.threads](Tensors operands,
                                                                          Workspace) {
      embedding_gradient<T>(operands[0].as<std::int32_t>(), operands[1].as<T>(), sizes, accumulate,
                            threads, operands[2].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::AddPositions& op, const Problem& problem) {
  return for_wide(op.wide, problem.dtype, [&]<class T, class Y>(As<T>, As<Y>) -> Run {
    return [op, shape = problem.shapes[0], threads = problem.threads](Tensors operands, Workspace) {
      const std::int64_t start = op.cached ? *operands[2].as<std::int32_t>() : 0;
      add_positions(operands[0].as<T>(), operands[1].as<T>(), start + op.first,
                    document_starts(op, operands, 2), shape, threads, operands.back().as<Y>());
    };
  });
}

Run prepare_row(const op::PositionsGradient& op, const Problem& problem) {
  if (op.documents) return prepare_restarted(op, problem);
  const std::int64_t used = problem.shapes[0][1] * problem.shapes[0][2];
  const std::int64_t before = op.first * problem.shapes[0][2];
  const std::int64_t held = op.rows * problem.shapes[0][2];
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Run {
    return [accumulate = op.accumulate, used, before, held, samples = problem.shapes[0][0],
            threads = problem.threads](Tensors operands, Workspace) {
      const T* y_grad = operands[0].as<T>();
      Sum<T>* table_grad = operands[1].as<Sum<T>>();
      const auto term = [=](std::int64_t sample, std::int64_t i) {
        return summed(y_grad[sample * used + i]);
      };
      sum_columns<Sum<T>>(samples, used, accumulate, threads, term, table_grad + before);
      if (accumulate) return;
      std::fill(table_grad, table_grad + before, Sum<T>{0});
      std::fill(table_grad + before + used, table_grad + held, Sum<T>{0});
    };
  });
}

}  // namespace fourfold::kernels::cpu
