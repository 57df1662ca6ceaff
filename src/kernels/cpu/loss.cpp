// Cross entropy, whole and in parts, its gradient and the sum of losses on CPU. R rows (tokens), V
// columns of the vocabulary.
#include <algorithm>

#include "base/checked.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/storage.h"
#include "kernels/vocabulary_window.h"

namespace fourfold::kernels::cpu {
namespace {

struct LossSizes {
  std::int64_t rows, vocabulary;
};
LossSizes loss_sizes(const Shape& logits) {
  return {logits.elements(0, logits.rank() - 1), logits.back()};
}

/// body(row) for all rows, threads sharing them.
template <class Body>
void for_rows(LossSizes sizes, int threads, Body body) {
  for_ranges(sizes.rows, team_size(threads, sizes.rows * sizes.vocabulary), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) body(row);
             });
}

template <class T>
void cross_entropy(const T* logits_RV, const std::int32_t* labels_R, LossSizes sizes, int threads,
                   Sum<T>* loss_R, Sum<T>* lse_R) {
  for_rows(sizes, threads, [=](std::int64_t row) {
    const T* logits = logits_RV + row * sizes.vocabulary;
    lse_R[row] = log_sum_exp_of(logits, sizes.vocabulary);
    loss_R[row] = labels_R[row] < 0 ? Sum<T>{0} : lse_R[row] - summed(logits[labels_R[row]]);
  });
}

template <class T>
void cross_entropy_gradient(const T* logits_RV, const std::int32_t* labels_R, const Sum<T>* lse_R,
                            std::int64_t rows, VocabularyWindow window, double scale, int threads,
                            T* logits_grad_RV) {
  const auto factor = static_cast<Sum<T>>(scale);
  for_rows({rows, window.local}, threads, [=](std::int64_t row) {
    T* grad = logits_grad_RV + row * window.local;
    const std::int64_t valid = labels_R[row] < 0 ? 0 : window.valid;
    cross_entropy_gradient_row(logits_RV + row * window.local, valid, lse_R[row], factor,
                               window.column_of(labels_R[row]), grad);
    std::fill(grad + valid, grad + window.local, T{});
  });
}

}  // namespace

Run prepare_row(const op::CrossEntropy&, const Problem& problem) {
  const LossSizes sizes = loss_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      cross_entropy<T>(operands[0].as<T>(), operands[1].as<std::int32_t>(), sizes, threads,
                       operands[2].as<Sum<T>>(), operands[3].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::LogitMax& op, const Problem& problem) {
  const LossSizes sizes = loss_sizes(problem.shapes[0]);
  const VocabularyWindow window = vocabulary_window(op, sizes.vocabulary);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, window, threads = problem.threads](Tensors operands, Workspace) {
      const T* logits_RV = operands[0].as<T>();
      Sum<T>* max_R = operands[1].as<Sum<T>>();
      for_rows(sizes, threads, [=](std::int64_t row) {
        max_R[row] = largest_of(logits_RV + row * window.local, window.valid);
      });
    };
  });
}

Run prepare_row(const op::LogitSums& op, const Problem& problem) {
  const LossSizes sizes = loss_sizes(problem.shapes[0]);
  const VocabularyWindow window = vocabulary_window(op, sizes.vocabulary);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, window, threads = problem.threads](Tensors operands, Workspace) {
      const T* logits_RV = operands[0].as<T>();
      const std::int32_t* labels_R = operands[1].as<std::int32_t>();
      const Sum<T>* max_R = operands[2].as<Sum<T>>();
      Sum<T>* sum_exp_R = operands[3].as<Sum<T>>();
      Sum<T>* label_logit_R = operands[4].as<Sum<T>>();
      for_rows(sizes, threads, [=](std::int64_t row) {
        const T* logits = logits_RV + row * window.local;
        const std::int64_t column = window.column_of(labels_R[row]);
        sum_exp_R[row] = sum_exp_of(logits, window.valid, max_R[row]);
        label_logit_R[row] = column < 0 ? Sum<T>{0} : summed(logits[column]) - max_R[row];
      });
    };
  });
}

Run prepare_row(const op::CrossEntropyMerge&, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows = problem.shapes[0].elements()](Tensors operands, Workspace) {
      const Sum<T>* max_R = operands[0].as<Sum<T>>();
      const Sum<T>* sum_exp_R = operands[1].as<Sum<T>>();
      const Sum<T>* label_logit_R = operands[2].as<Sum<T>>();
      const std::int32_t* labels_R = operands[3].as<std::int32_t>();
      Sum<T>* loss_R = operands[4].as<Sum<T>>();
      Sum<T>* lse_R = operands[5].as<Sum<T>>();
#pragma omp simd
      for (std::int64_t row = 0; row < rows; ++row) {
        const Sum<T> log_sum = log_of(sum_exp_R[row]);
        loss_R[row] = labels_R[row] < 0 ? Sum<T>{0} : log_sum - label_logit_R[row];
        lse_R[row] = max_R[row] + log_sum;
      }
    };
  });
}

Run prepare_row(const op::CrossEntropyGradient& op, const Problem& problem) {
  const LossSizes sizes = loss_sizes(problem.shapes[0]);
  const VocabularyWindow window = vocabulary_window(op, sizes.vocabulary);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows = sizes.rows, window, scale = op.scale, threads = problem.threads](
               Tensors operands, Workspace) {
      cross_entropy_gradient<T>(operands[0].as<T>(), operands[1].as<std::int32_t>(),
                                operands[2].as<Sum<T>>(), rows, window, scale, threads,
                                operands[3].as<T>());
    };
  });
}

Run prepare_row(const op::LossSum& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [accumulate = op.accumulate, rows = problem.shapes[0].elements()](Tensors operands,
                                                                             Workspace) {
      const Sum<T>* loss_R = operands[0].as<Sum<T>>();
      const std::int32_t* labels_R = operands[1].as<std::int32_t>();
      double sum = 0;
      std::int64_t count = 0;
#pragma omp simd reduction(+ : sum, count)
      for (std::int64_t row = 0; row < rows; ++row) {
        sum += static_cast<double>(loss_R[row]);
        count += labels_R[row] < 0 ? 0 : 1;
      }
      double& loss_sum = *operands[2].as<double>();
      std::int64_t& valid_count = *operands[3].as<std::int64_t>();
      loss_sum = accumulate ? loss_sum + sum : sum;
      valid_count = accumulate ? wrapping_add(valid_count, count) : count;
    };
  });
}

Run prepare_row(const op::CountCorrect& op, const Problem& problem) {
  const LossSizes sizes = loss_sizes(problem.shapes[0]);
  const VocabularyWindow window = vocabulary_window(op, sizes.vocabulary);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows = sizes.rows, window, accumulate = op.accumulate](Tensors operands, Workspace) {
      const T* logits_RV = operands[0].as<T>();
      const std::int32_t* labels_R = operands[1].as<std::int32_t>();
      const Sum<T>* max_R = operands[2].as<Sum<T>>();
      std::int64_t correct = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t column = window.column_of(labels_R[row]);
        if (column >= 0 && summed(logits_RV[row * window.local + column]) == max_R[row]) ++correct;
      }
      std::int64_t& count = *operands[3].as<std::int64_t>();
      count = accumulate ? wrapping_add(count, correct) : correct;
    };
  });
}

}  // namespace fourfold::kernels::cpu
