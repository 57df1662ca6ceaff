// Fused rows on CPU: the loops of their parts on one row at a time, which stays in the first-level
// cache between them. R rows, C channels, N columns of a bias, V of the vocabulary.
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/keep_factors.h"
#include "kernels/cpu/norm_row.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/softmax_row.h"
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

/// Dropout of single rows of a tensor, where a row has it.
class RowDropout {
 public:
  template <class Row>
  RowDropout(const Row& row, const Shape& shape, std::size_t seed)
      : op_{row.stream, row.rate, row.window, row.part},
        elements_(dropout_elements(op_, shape)),
        seed_(seed) {}

  bool is_on() const { return op_.rate > 0; }

  /// drop(first, count, x, y) for the operands of one call: y = dropout of x, x and y being the
  /// elements from `first` on; y may be x.
  template <class T>
  auto for_call(Tensors operands) const {
    const DropoutMask mask(op_.stream, op_.rate, is_on() ? *operands[seed_].as<std::uint64_t>() : 0,
                           is_on() ? *operands[seed_ + 1].as<std::int64_t>() : 0);
    return [this, mask, kept_factor = static_cast<T>(1 / (1 - op_.rate))](
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
  DropoutElements elements_;
  std::size_t seed_;
};

template <class T>
void add_rows(const T* a, const T* b, std::int64_t count, T* sum) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

struct NormRows {
  std::int64_t rows, channels;
  explicit NormRows(const Shape& x) : rows(x.elements(0, x.rank() - 1)), channels(x.back()) {}
};

}  // namespace

Run prepare_row(const op::BiasGelu&, const Problem& problem) {
  const std::int64_t columns = problem.shapes[1].elements();
  const std::int64_t rows = problem.shapes[0].elements() / columns;
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows, columns, threads = problem.threads](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      const T* bias = operands[1].as<T>();
      T* sum = operands[2].as<T>();
      T* y = operands[3].as<T>();
      for_rows(rows, columns, threads, [=](std::int64_t, std::int64_t at) {
#pragma omp simd
        for (std::int64_t n = 0; n < columns; ++n) {
          const T total = x[at + n] + bias[n];
          sum[at + n] = total;
          y[at + n] = gelu(total);
        }
      });
    };
  });
}

Run prepare_row(const op::AddLayerNorm& op, const Problem& problem) {
  const NormRows sizes(problem.shapes[0]);
  const std::size_t seed = op.branch_bias ? 3 : 2, gain = seed + (op.rate > 0 ? 2 : 0),
                    sum = gain + (op.bias ? 2 : 1);
  const RowDropout dropout(op, problem.shapes[0], seed);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, threads = problem.threads](Tensors operands, Workspace) {
      const T* x_RC = operands[0].as<T>();
      const T* branch_RC = operands[1].as<T>();
      const T* branch_bias_C = op.branch_bias ? operands[2].as<T>() : nullptr;
      const T* gain_C = operands[gain].as<T>();
      const T* bias_C = op.bias ? operands[gain + 1].as<T>() : nullptr;
      T* sum_RC = operands[sum].as<T>();
      T* y_RC = operands[sum + 1].as<T>();
      T* mean_R = operands[sum + 2].as<T>();
      T* rstd_R = operands[sum + 3].as<T>();
      const auto drop_row = dropout.for_call<T>(operands);
      for_rows(sizes.rows, sizes.channels, threads, [&](std::int64_t row, std::int64_t at) {
        const T* branch = branch_RC + at;
        T* const total = sum_RC + at;
        if (branch_bias_C != nullptr) {
          add_rows(branch, branch_bias_C, sizes.channels, total);
          branch = total;
        }
        if (dropout.is_on()) {
          drop_row(at, sizes.channels, branch, total);
          branch = total;
        }
        add_rows(branch, x_RC + at, sizes.channels, total);
        const auto [mean, rstd] =
            layer_norm_row(total, gain_C, bias_C, sizes.channels, op.epsilon, y_RC + at);
        mean_R[row] = mean;
        rstd_R[row] = rstd;
      });
    };
  });
}

Run prepare_row(const op::AddLayerNormGradient& op, const Problem& problem) {
  const NormRows sizes(problem.shapes[0]);
  const std::size_t seed = op.addend ? 6 : 5, sum = seed + (op.rate > 0 ? 2 : 0);
  const RowDropout dropout(op, problem.shapes[0], seed);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, threads = problem.threads](Tensors operands, Workspace) {
      const T* x_RC = operands[0].as<T>();
      const T* gain_C = operands[1].as<T>();
      const T* mean_R = operands[2].as<T>();
      const T* rstd_R = operands[3].as<T>();
      const T* y_grad_RC = operands[4].as<T>();
      const T* addend_RC = op.addend ? operands[5].as<T>() : nullptr;
      T* sum_RC = operands[sum].as<T>();
      T* branch_RC = dropout.is_on() ? operands[sum + 1].as<T>() : nullptr;
      const auto drop_row = dropout.for_call<T>(operands);
      for_rows(sizes.rows, sizes.channels, threads, [&](std::int64_t row, std::int64_t at) {
        T* const total = sum_RC + at;
        layer_norm_gradient_row(x_RC + at, gain_C, {mean_R[row], rstd_R[row]}, y_grad_RC + at,
                                sizes.channels, total);
        if (addend_RC != nullptr) add_rows(total, addend_RC + at, sizes.channels, total);
        if (branch_RC != nullptr) drop_row(at, sizes.channels, total, branch_RC + at);
      });
    };
  });
}

Run prepare_row(const op::CrossEntropyBoth& op, const Problem& problem) {
  const std::int64_t vocabulary = problem.shapes[0].back(), rows = problem.shapes[1].elements();
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, threads = problem.threads](Tensors operands, Workspace) {
      const T* logits_RV = operands[0].as<T>();
      const std::int32_t* labels_R = operands[1].as<std::int32_t>();
      T* loss_R = operands[2].as<T>();
      T* lse_R = operands[3].as<T>();
      T* grad_RV = operands[4].as<T>();
      const auto factor = static_cast<T>(op.scale);
      for_rows(rows, vocabulary, threads, [=](std::int64_t row, std::int64_t at) {
        const std::int32_t label = labels_R[row];
        const T lse = log_sum_exp_of(logits_RV + at, vocabulary);
        // Before the gradient, which may lie where the logits lie.
        loss_R[row] = label < 0 ? T{0} : lse - logits_RV[at + label];
        lse_R[row] = lse;
        const std::int64_t valid = label < 0 ? 0 : vocabulary;
        cross_entropy_gradient_row(logits_RV + at, valid, lse, factor, label, grad_RV + at);
        std::fill(grad_RV + at + valid, grad_RV + at + vocabulary, T{0});
      });
    };
  });
}

}  // namespace fourfold::kernels::cpu
