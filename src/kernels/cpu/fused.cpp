// Chains of rows on CPU: the loops of their pieces on one row at a time, which stays in the
// first-level cache between them; chains without such a kernel, and lists, piece by piece. R rows,
// C channels, N columns of a bias, V of the vocabulary.
#include <algorithm>
#include <optional>
#include <type_traits>

#include "kernels/cpu/gelu.h"
#include "kernels/cpu/keep_factors.h"
#include "kernels/cpu/norm_row.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/fused_rows.h"
#include "kernels/norm_operands.h"
#include "kernels/run_pieces.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// body(row, first element of the row) for all rows, threads sharing them.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t columns, int threads, Body body) {
  for_ranges(rows, team_size(threads, rows * columns), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) body(row, row * columns);
             });
}

/// Dropout of single rows of a tensor, where a chain has it.
class RowDropout {
 public:
  template <class Chain>
  RowDropout(const Chain& chain, const Shape& shape)
      : op_(chain.dropout.value_or(op::Dropout())),
        elements_(step_elements(op_.window, op_.part, shape)),
        seed_(chain.seed),
        step_(chain.step) {}

  bool is_on() const { return op_.rate > 0; }

  /// drop(first, count, x, y) for the operands of one call: y = dropout of x, x and y being the
  /// elements from `first` on; y may be x.
  template <class T>
  auto for_call(Tensors operands) const {
    const DropoutMask mask(op_.stream, op_.rate, is_on() ? *operands[seed_].as<std::uint64_t>() : 0,
                           is_on() ? *operands[step_].as<std::int64_t>() : 0);
    return [this, mask, kept_factor = static_cast<Sum<T>>(1 / (1 - op_.rate))](
               std::int64_t first, std::int64_t count, const T* x, T* y) {
      const auto visit = [&](std::int64_t local, std::uint64_t global, std::int64_t size) {
        drop(mask, elements_.first_element + global, size, kept_factor, x + (local - first),
             y + (local - first));
      };
      elements_.stretches.walk(first, first + count, visit, [](std::int64_t, std::int64_t) {});
    };
  }

 private:
  op::Dropout op_;
  StepElements elements_;
  std::size_t seed_, step_;
};

template <class A, class B, class Out>
void add_rows(const A* a, const B* b, std::int64_t count, Out* sum) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store(sum[i], summed(a[i]) + summed(b[i]));
}

/// `to` is `from` rounded.
template <class X, class T>
void round_row(const X* from, std::int64_t count, T* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store(to[i], summed(from[i]));
}

struct NormRows {
  std::int64_t rows, channels;
  explicit NormRows(const Shape& x) : rows(x.elements(0, x.rank() - 1)), channels(x.back()) {}
};

Run prepare_chain(const BiasGelu& chain, const Problem& problem) {
  const std::int64_t columns = problem.shapes[chain.bias].elements();
  const std::int64_t rows = problem.shapes[chain.x].elements() / columns;
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [chain, rows, columns, threads = problem.threads](Tensors operands, Workspace) {
      const T* x = operands[chain.x].as<T>();
      const T* bias = operands[chain.bias].as<T>();
      T* sum = operands[chain.sum].as<T>();
      T* y = operands[chain.y].as<T>();
      for_rows(rows, columns, threads, [=](std::int64_t, std::int64_t at) {
#pragma omp simd
        for (std::int64_t n = 0; n < columns; ++n) {
          const Sum<T> total = rounded<T>(summed(x[at + n]) + summed(bias[n]));
          store(sum[at + n], total);
          store(y[at + n], gelu(total));
        }
      });
    };
  });
}

Run prepare_chain(const ResidualNorm& chain, const Problem& problem) {
  const NormRows sizes(problem.shapes[chain.sum]);
  const RowDropout dropout(chain, problem.shapes[chain.sum]);
  return for_wide(chain.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [=, threads = problem.threads](Tensors operands, Workspace) {
      const X* other_RC = operands[chain.other].as<X>();
      const T* branch_RC = operands[chain.branch].as<T>();
      const T* branch_bias_C = optional_operand<T>(operands, chain.branch_bias);
      const T* gain_C = operands[chain.gain].as<T>();
      const T* bias_C = optional_operand<T>(operands, chain.bias);
      X* sum_RC = operands[chain.sum].as<X>();
      T* y_RC = operands[chain.y].as<T>();
      Sum<T>* mean_R = optional_operand<Sum<T>>(operands, chain.mean);
      Sum<T>* rstd_R = operands[chain.rstd].as<Sum<T>>();
      const auto drop_row = dropout.for_call<T>(operands);
      for_rows(sizes.rows, sizes.channels, threads, [&](std::int64_t row, std::int64_t at) {
        const T* branch = branch_RC + at;
        X* const total = sum_RC + at;
        if constexpr (std::is_same_v<T, X>) {  // a wide chain hands on neither
          if (branch_bias_C != nullptr) {
            add_rows(branch, branch_bias_C, sizes.channels, total);
            branch = total;
          }
          if (dropout.is_on()) {
            drop_row(at, sizes.channels, branch, total);
            branch = total;
          }
        }
        add_rows(branch, other_RC + at, sizes.channels, total);
        T* const y = y_RC + at;
        const auto [mean, rstd] =
            mean_R == nullptr
                ? root_mean_square_row(total, gain_C, sizes.channels, chain.epsilon, y)
                : layer_norm_row(total, gain_C, bias_C, sizes.channels, chain.epsilon, y);
        if (mean_R != nullptr) mean_R[row] = mean;
        rstd_R[row] = rstd;
      });
    };
  });
}

Run prepare_chain(const ResidualNormGradient& chain, const Problem& problem) {
  const NormRows sizes(problem.shapes[chain.x]);
  const RowDropout dropout(chain, problem.shapes[chain.x]);
  return for_wide(chain.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [=, threads = problem.threads](Tensors operands, Workspace) {
      const X* x_RC = operands[chain.x].as<X>();
      const T* gain_C = operands[chain.gain].as<T>();
      const Sum<T>* mean_R = optional_operand<Sum<T>>(operands, chain.mean);
      const Sum<T>* rstd_R = operands[chain.rstd].as<Sum<T>>();
      const T* y_grad_RC = operands[chain.y_grad].as<T>();
      const X* addend_RC = optional_operand<X>(operands, chain.addend);
      X* sum_RC = operands[chain.sum_grad].as<X>();
      T* branch_RC = optional_operand<T>(operands, chain.branch_grad);
      const auto drop_row = dropout.for_call<T>(operands);
      for_rows(sizes.rows, sizes.channels, threads, [&](std::int64_t row, std::int64_t at) {
        X* const total = sum_RC + at;
        if (mean_R == nullptr)
          root_mean_square_gradient_row(x_RC + at, gain_C, rstd_R[row], y_grad_RC + at,
                                        sizes.channels, total);
        else
          layer_norm_gradient_row(x_RC + at, gain_C, {mean_R[row], rstd_R[row]}, y_grad_RC + at,
                                  sizes.channels, total);
        if (addend_RC != nullptr) add_rows(total, addend_RC + at, sizes.channels, total);
        if (branch_RC == nullptr) return;
        T* const branch = branch_RC + at;
        const T* handed_on = branch;
        if constexpr (std::is_same_v<T, X>) {
          if (dropout.is_on()) handed_on = total;
        }
        if (handed_on == branch) round_row(total, sizes.channels, branch);
        if (dropout.is_on()) drop_row(at, sizes.channels, handed_on, branch);
      });
    };
  });
}

Run prepare_chain(const LossAndGradient& chain, const Problem& problem) {
  const std::int64_t vocabulary = problem.shapes[chain.logits].back(),
                     rows = problem.shapes[chain.labels].elements();
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, threads = problem.threads](Tensors operands, Workspace) {
      using S = Sum<T>;
      const T* logits_RV = operands[chain.logits].as<T>();
      const std::int32_t* labels_R = operands[chain.labels].as<std::int32_t>();
      S* loss_R = operands[chain.loss].as<S>();
      S* lse_R = operands[chain.lse].as<S>();
      T* grad_RV = operands[chain.logits_grad].as<T>();
      const auto factor = static_cast<S>(chain.scale);
      for_rows(rows, vocabulary, threads, [=](std::int64_t row, std::int64_t at) {
        const std::int32_t label = labels_R[row];
        const S lse = log_sum_exp_of(logits_RV + at, vocabulary);
        // Before the gradient, which may lie where the logits lie.
        loss_R[row] = label < 0 ? S{0} : lse - summed(logits_RV[at + label]);
        lse_R[row] = lse;
        const std::int64_t valid = label < 0 ? 0 : vocabulary;
        cross_entropy_gradient_row(logits_RV + at, valid, lse, factor, label, grad_RV + at);
        std::fill(grad_RV + at + valid, grad_RV + at + vocabulary, T{});
      });
    };
  });
}

/// The pieces run at this level of instructions, as their workspace is of this level.
Run vector_pieces(const Problem& problem) {
  return run_pieces(problem, prepare_vector);
}

}  // namespace

Run prepare_row(const op::Fused& chain, const Problem& problem) {
  const auto rows = row_chain(chain, problem.shapes);
  if (!rows) return vector_pieces(problem);
  return std::visit([&](const auto& kind) { return prepare_chain(kind, problem); }, *rows);
}
Run prepare_row(const op::CastList&, const Problem& problem) {
  return vector_pieces(problem);
}

std::int64_t workspace_bytes(const op::Fused& chain, const Problem& problem) {
  if (row_chain(chain, problem.shapes)) return 0;
  return largest_workspace(problem, vector_workspace_bytes);
}

}  // namespace fourfold::kernels::cpu
