// Reference bias, GELU, cast, sum and selection of a position; op::AddBias ... op::Add and
// op::TakePosition state the contracts. R rows, N elements of a bias.
#include <cmath>
#include <numbers>

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

constexpr double root_two_over_pi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double cubic = 0.044715;  // Hendrycks, Gimpel 2016, section 2

template <class S>
S gelu(S x) {
  const S u = static_cast<S>(root_two_over_pi) * (x + static_cast<S>(cubic) * x * x * x);
  return x / 2 * (1 + std::tanh(u));
}

template <class S>
S gelu_derivative(S x) {
  const S u = static_cast<S>(root_two_over_pi) * (x + static_cast<S>(cubic) * x * x * x);
  const S u_derivative = static_cast<S>(root_two_over_pi) * (1 + 3 * static_cast<S>(cubic) * x * x);
  const S sech = 1 / std::cosh(u);  // 1 - tanh^2 without its cancellation
  return (1 + std::tanh(u)) / 2 + x / 2 * sech * sech * u_derivative;
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

Run prepare_row(const op::Gelu&, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [count = problem.shapes[0].elements()](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      T* y = operands[1].as<T>();
      for (std::int64_t i = 0; i < count; ++i)
        y[i] = static_cast<T>(gelu(static_cast<Sum<T>>(x[i])));
    };
  });
}

Run prepare_row(const op::GeluGradient&, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [count = problem.shapes[0].elements()](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      const T* y_grad = operands[1].as<T>();
      T* x_grad = operands[2].as<T>();
      for (std::int64_t i = 0; i < count; ++i)
        x_grad[i] = static_cast<T>(static_cast<Sum<T>>(y_grad[i]) *
                                   gelu_derivative(static_cast<Sum<T>>(x[i])));
    };
  });
}

Run prepare_row(const op::Cast&, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [count = problem.shapes[0].elements()](Tensors operands, Workspace) {
      const auto* x = operands[0].as<Sum<T>>();
      T* y = operands[1].as<T>();
      for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(x[i]);
    };
  });
}

Run prepare_row(const op::Add&, const Problem& problem) {
  // Sums mod 2^64 are the same bits with and without sign.
  if (problem.dtype == DType::i64 || problem.dtype == DType::u64)
    return [count = problem.shapes[0].elements()](Tensors operands, Workspace) {
      for (std::int64_t i = 0; i < count; ++i)
        operands[2].as<std::uint64_t>()[i] =
            operands[0].as<std::uint64_t>()[i] + operands[1].as<std::uint64_t>()[i];
    };
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [count = problem.shapes[0].elements()](Tensors operands, Workspace) {
      const T* a = operands[0].as<T>();
      const T* b = operands[1].as<T>();
      T* y = operands[2].as<T>();
      for (std::int64_t i = 0; i < count; ++i)
        y[i] = static_cast<T>(static_cast<Sum<T>>(a[i]) + static_cast<Sum<T>>(b[i]));
    };
  });
}

Run prepare_row(const op::TakePosition&, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
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
