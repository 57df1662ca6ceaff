// Reference bias and selection of a position, and the loop of the rows of op/elementwise.h. R rows,
// N elements of a bias.
#include "kernels/elementwise.h"

#include <tuple>
#include <utility>

#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

template <class T>
void add_bias(const T* x_RN, const T* bias_N, std::int64_t rows, std::int64_t columns, T* y_RN) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t n = 0; n < columns; ++n)
      y_RN[row * columns + n] = static_cast<T>(static_cast<Sum<T>>(x_RN[row * columns + n]) +
                                               static_cast<Sum<T>>(bias_N[n]));
}

template <class T>
void bias_gradient(const T* y_grad_RN, std::int64_t rows, std::int64_t columns, bool accumulate,
                   Sum<T>* bias_grad_N) {
  for (std::int64_t n = 0; n < columns; ++n) {
    Sum<T> sum = accumulate ? bias_grad_N[n] : 0;
    for (std::int64_t row = 0; row < rows; ++row)
      sum += static_cast<Sum<T>>(y_grad_RN[row * columns + n]);
    bias_grad_N[n] = sum;
  }
}

using Math = StandardMath;

template <class T, class Row, std::size_t... read>
Run map_elements(const Row& row, std::int64_t count, std::index_sequence<read...>) {
  return [row, count](Tensors operands, Workspace) {
    const auto in =
        std::tuple(operands[read].as<const Stored<T, Row::rule.operands[read].element>>()...);
    using Out = Stored<T, Row::rule.operands[sizeof...(read)].element>;
    Out* out = operands[sizeof...(read)].as<Out>();
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = static_cast<Out>(
          element(Math{}, row, static_cast<Computing<T>>(std::get<read>(in)[i])...));
  };
}

template <class Row>
Run prepare_elementwise(const Row& row, const Problem& problem) {
  const auto make = [&]<class T>(As<T>) -> Run {
    return map_elements<T>(row, problem.shapes[0].elements(),
                           std::make_index_sequence<Row::rule.num_reads>());
  };
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
    return [rows, columns](Tensors operands, Workspace) {
      add_bias<T>(operands[0].as<T>(), operands[1].as<T>(), rows, columns, operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::BiasGradient& op, const Problem& problem) {
  const std::int64_t columns = problem.shapes[1].elements();
  const std::int64_t rows = problem.shapes[0].elements() / columns;
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows, columns, accumulate = op.accumulate](Tensors operands, Workspace) {
      bias_gradient<T>(operands[0].as<T>(), rows, columns, accumulate, operands[1].as<Sum<T>>());
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
      const T* x_BTC = operands[0].as<T>();
      const std::int64_t index = *operands[1].as<std::int32_t>();
      T* y_BC = operands[2].as<T>();
      for (std::int64_t sample = 0; sample < shape[0]; ++sample)
        for (std::int64_t channel = 0; channel < shape[2]; ++channel)
          y_BC[sample * shape[2] + channel] =
              x_BTC[(sample * shape[1] + index) * shape[2] + channel];
    };
  });
}

}  // namespace fourfold::kernels::reference
