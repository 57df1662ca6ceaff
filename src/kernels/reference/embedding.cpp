// Reference token and position embeddings and their gradients; op::Embedding ...
// op::PositionsGradient say what they compute. B batch, T time, C channels, V rows of the token
// table, P rows of the position table, N = B T.
#include <algorithm>

#include "kernels/document_starts.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

struct TableSizes {
  std::int64_t tokens, rows, channels, first_row;
};

template <class T>
void embedding(const std::int32_t* tokens_N, const T* table_VC, const TableSizes& sizes, T* y_NC) {
  for (std::int64_t token = 0; token < sizes.tokens; ++token) {
    const std::int64_t row = tokens_N[token] - sizes.first_row;
    const bool here = row >= 0 && row < sizes.rows;
    for (std::int64_t channel = 0; channel < sizes.channels; ++channel)
      y_NC[token * sizes.channels + channel] =
          here ? table_VC[row * sizes.channels + channel] : static_cast<T>(Sum<T>{0});
  }
}

template <class T>
void embedding_gradient(const std::int32_t* tokens_N, const T* y_grad_NC, const TableSizes& sizes,
                        bool accumulate, Sum<T>* table_grad_VC) {
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    for (std::int64_t channel = 0; channel < sizes.channels; ++channel) {
      Sum<T>& out = table_grad_VC[row * sizes.channels + channel];
      Sum<T> sum = accumulate ? out : 0;
      for (std::int64_t token = 0; token < sizes.tokens; ++token)
        if (tokens_N[token] == sizes.first_row + row)
          sum += static_cast<Sum<T>>(y_grad_NC[token * sizes.channels + channel]);
      out = sum;
    }
  }
}

template <class T, class Y>
void add_positions(const T* x_BTC, const T* table_PC, std::int64_t first,
                   const DocumentStarts& documents, const Shape& shape, Y* y_BTC) {
  for (std::int64_t sample = 0; sample < shape[0]; ++sample)
    for (std::int64_t t = 0; t < shape[1]; ++t)
      for (std::int64_t channel = 0; channel < shape[2]; ++channel) {
        const std::int64_t i = (sample * shape[1] + t) * shape[2] + channel;
        const std::int64_t row = first + t - documents.first_key(sample, t);
        y_BTC[i] = static_cast<Y>(static_cast<Sum<T>>(x_BTC[i]) +
                                  static_cast<Sum<T>>(table_PC[row * shape[2] + channel]));
      }
}

template <class T>
void positions_gradient(const T* y_grad_BTC, const DocumentStarts& documents, const Shape& shape,
                        const op::PositionsGradient& op, Sum<T>* table_grad_PC) {
  for (std::int64_t row = 0; row < op.rows; ++row)
    for (std::int64_t channel = 0; channel < shape[2]; ++channel) {
      Sum<T>& out = table_grad_PC[row * shape[2] + channel];
      Sum<T> sum = op.accumulate ? out : 0;
      // Without documents one t has this position, with them also later ones.
      const std::int64_t first = std::max<std::int64_t>(0, row - op.first);
      const std::int64_t end = op.documents ? shape[1] : std::min(first + 1, shape[1]);
      for (std::int64_t sample = 0; sample < shape[0]; ++sample)
        for (std::int64_t t = first; t < end; ++t)
          if (op.first + t - documents.first_key(sample, t) == row)
            sum += static_cast<Sum<T>>(y_grad_BTC[(sample * shape[1] + t) * shape[2] + channel]);
      out = sum;
    }
}

}  // namespace

Run prepare_row(const op::Embedding& op, const Problem& problem) {
  const TableSizes sizes{problem.shapes[0].elements(), problem.shapes[1][0], problem.shapes[1][1],
                         op.first_row};
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      embedding<T>(operands[0].as<std::int32_t>(), operands[1].as<T>(), sizes, operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::EmbeddingGradient& op, const Problem& problem) {
  const TableSizes sizes{problem.shapes[0].elements(), op.rows, problem.shapes[1].back(),
                         op.first_row};
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Run {
    return [sizes, accumulate = op.accumulate](Tensors operands, Workspace) {
      embedding_gradient<T>(operands[0].as<std::int32_t>(), operands[1].as<T>(), sizes, accumulate,
                            operands[2].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::AddPositions& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(op.wide, [&]<class Y>(As<Y>) -> Run {
      return [op, shape = problem.shapes[0]](Tensors operands, Workspace) {
        const std::int64_t start = op.cached ? *operands[2].as<std::int32_t>() : 0;
        add_positions(operands[0].as<T>(), operands[1].as<T>(), start + op.first,
                      document_starts(op, operands, 2), shape, operands.back().as<Y>());
      };
    });
  });
}

Run prepare_row(const op::PositionsGradient& op, const Problem& problem) {
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Run {
    return [op, shape = problem.shapes[0]](Tensors operands, Workspace) {
      positions_gradient<T>(operands[0].as<T>(), document_starts(op, operands, 1), shape, op,
                            operands.back().as<Sum<T>>());
    };
  });
}

}  // namespace fourfold::kernels::reference
