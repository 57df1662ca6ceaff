// Reference kernels of op::Gated and its gradient. R rows, F columns.
#include "kernels/elementwise.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {

Run prepare_row(const op::Gated&, const Problem& problem) {
  const std::int64_t columns = problem.shapes[1].back(), count = problem.shapes[1].elements();
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [columns, count](Tensors operands, Workspace) {
      const T* x_R2F = operands[0].as<T>();
      T* y_RF = operands[1].as<T>();
      for (std::int64_t i = 0; i < count; ++i) {
        const T* gate = x_R2F + i / columns * 2 * columns + i % columns;
        y_RF[i] = static_cast<T>(element(StandardMath{}, op::Silu{}, static_cast<Sum<T>>(gate[0])) *
                                 static_cast<Sum<T>>(gate[columns]));
      }
    };
  });
}

Run prepare_row(const op::GatedGradient&, const Problem& problem) {
  const std::int64_t columns = problem.shapes[1].back(), count = problem.shapes[1].elements();
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [columns, count](Tensors operands, Workspace) {
      const T *x_R2F = operands[0].as<T>(), *y_grad_RF = operands[1].as<T>();
      T* x_grad_R2F = operands[2].as<T>();  // may be x
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = i / columns * 2 * columns + i % columns;
        const auto gate = static_cast<Sum<T>>(x_R2F[at]),
                   other = static_cast<Sum<T>>(x_R2F[at + columns]),
                   grad = static_cast<Sum<T>>(y_grad_RF[i]);
        x_grad_R2F[at] =
            static_cast<T>(element(StandardMath{}, op::SiluGradient{}, gate, grad * other));
        x_grad_R2F[at + columns] = static_cast<T>(grad * element(StandardMath{}, op::Silu{}, gate));
      }
    };
  });
}

}  // namespace fourfold::kernels::reference
