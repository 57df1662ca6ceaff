// Reference norm of gradients, finiteness, the decision about an update, and AdamW; op::SquaredNorm
// ... op::CountUpdate state the contracts.
#include <cmath>

#include "kernels/reference/rows.h"
#include "kernels/storage.h"
#include "kernels/update_decision.h"

namespace fourfold::kernels::reference {

namespace {

/// Adds the sums of `sum_of(x, elements)` over all operands but the last, to the last.
template <class T, class Sum, class SumOf>
Run sum_over_tensors(bool accumulate, SumOf sum_of) {
  return [=](Tensors operands, Workspace) {
    Sum& out = *operands.back().as<Sum>();
    if (!accumulate) out = 0;
    for (const Tensor& x : operands.first(operands.size() - 1))
      out += sum_of(x.as<T>(), x.elements());
  };
}

}  // namespace

Run prepare_row(const op::SquaredNorm& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return sum_over_tensors<T, double>(op.accumulate, [](const T* x, std::int64_t count) {
      double sum = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<double>(static_cast<kernels::Sum<T>>(x[i]));
        sum += value * value;
      }
      return sum;
    });
  });
}

Run prepare_row(const op::CountNonFinite& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return sum_over_tensors<T, std::int64_t>(op.accumulate, [](const T* x, std::int64_t count) {
      std::int64_t found = 0;
      for (std::int64_t i = 0; i < count; ++i)
        found += std::isfinite(static_cast<kernels::Sum<T>>(x[i])) ? 0 : 1;
      return found;
    });
  });
}

Run prepare_row(const op::Vote&, const Problem&) {
  return [](Tensors operands, Workspace) {
    const bool fit = is_fit(*operands[1].as<double>(), *operands[2].as<double>(),
                            *operands[3].as<std::int64_t>(), *operands[4].as<std::int64_t>(),
                            *operands[5].as<double>());
    *operands[6].as<std::int64_t>() =
        *operands[0].as<std::int64_t>() + op::Votes{.against = fit ? 0 : 1}.packed();
  };
}

Run prepare_row(const op::UpdateControl& op, const Problem&) {
  return [op](Tensors operands, Workspace) {
    const UpdateDecision decision =
        decide_update(op, *operands[0].as<double>(), *operands[1].as<std::int64_t>(),
                      op::Votes::of(*operands[2].as<std::int64_t>()));
    *operands[3].as<double>() = decision.grad_norm;
    *operands[4].as<double>() = decision.scale;
    *operands[5].as<std::int64_t>() = decision.applied;
  };
}

namespace {

template <class T>
void adamw(const T* grad, const AdamWScalars& scalars, std::int64_t count, T* weight, T* m, T* v) {
  using S = Sum<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    const S g = static_cast<S>(scalars.gradient_scale) * static_cast<S>(grad[i]);
    const S first = static_cast<S>(scalars.beta1) * static_cast<S>(m[i]) +
                    static_cast<S>(scalars.one_minus_beta1) * g;
    const S second = static_cast<S>(scalars.beta2) * static_cast<S>(v[i]) +
                     static_cast<S>(scalars.one_minus_beta2) * g * g;
    const S divisor =
        std::sqrt(second) * static_cast<S>(scalars.inverse_root) + static_cast<S>(scalars.epsilon);
    weight[i] = static_cast<T>(static_cast<S>(scalars.keep) * static_cast<S>(weight[i]) -
                               static_cast<S>(scalars.step_size) * first / divisor);
    m[i] = static_cast<T>(first);
    v[i] = static_cast<T>(second);
  }
}

}  // namespace

Run prepare_row(const op::AdamW& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, count = problem.shapes[0].elements()](Tensors operands, Workspace) {
      if (*operands[3].as<std::int64_t>() == 0) return;
      const AdamWScalars scalars =
          adamw_scalars(op, *operands[1].as<double>(), *operands[2].as<double>(),
                        *operands[4].as<std::int64_t>());
      adamw<T>(operands[0].as<T>(), scalars, count, operands[5].as<T>(), operands[6].as<T>(),
               operands[7].as<T>());
    };
  });
}

Run prepare_row(const op::AdamWList& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op](Tensors operands, Workspace) {
      if (*operands[2].as<std::int64_t>() == 0) return;
      for (std::int64_t i = 0; i < op.count(); ++i) {
        const auto tensor = [&, base = 4 + op.count() + 3 * i](std::int64_t which) {
          return operands[static_cast<std::size_t>(base + which)].as<T>();
        };
        const Tensor& grad = operands[static_cast<std::size_t>(4 + i)];
        const AdamWScalars scalars =
            adamw_scalars(op.one(i), *operands[0].as<double>(), *operands[1].as<double>(),
                          *operands[3].as<std::int64_t>());
        adamw<T>(grad.as<T>(), scalars, grad.elements(), tensor(0), tensor(1), tensor(2));
      }
    };
  });
}

Run prepare_row(const op::CountUpdate&, const Problem&) {
  return [](Tensors operands, Workspace) {
    *operands[1].as<std::int64_t>() += *operands[0].as<std::int64_t>();
  };
}

}  // namespace fourfold::kernels::reference
