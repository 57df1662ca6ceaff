// Reference cross entropy, whole and in parts, its gradient, and what is summed; op::CrossEntropy
// ... op::CountCorrect say what they compute. R rows (tokens), V columns of the vocabulary. A label
// of -1 means: no loss, no gradient.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"
#include "kernels/vocabulary_window.h"

namespace fourfold::kernels::reference {
namespace {

struct LossSizes {
  std::int64_t rows, vocabulary;
};
LossSizes loss_sizes(const Shape& logits) {
  return {logits.elements(0, logits.rank() - 1), logits.back()};
}

template <class T>
void cross_entropy(const T* logits_RV, const std::int32_t* labels_R, LossSizes sizes,
                   Sum<T>* loss_R, Sum<T>* lse_R) {
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    const T* logits = logits_RV + row * sizes.vocabulary;
    Sum<T> largest = -std::numeric_limits<Sum<T>>::infinity(), sum = 0;
    for (std::int64_t v = 0; v < sizes.vocabulary; ++v)
      largest = std::max(largest, static_cast<Sum<T>>(logits[v]));
    for (std::int64_t v = 0; v < sizes.vocabulary; ++v)
      sum += std::exp(static_cast<Sum<T>>(logits[v]) - largest);
    lse_R[row] = largest + std::log(sum);
    loss_R[row] = labels_R[row] < 0 ? 0 : lse_R[row] - static_cast<Sum<T>>(logits[labels_R[row]]);
  }
}

template <class T>
void logit_max(const T* logits_RV, std::int64_t rows, VocabularyWindow window, Sum<T>* max_R) {
  for (std::int64_t row = 0; row < rows; ++row) {
    Sum<T> largest = -std::numeric_limits<Sum<T>>::infinity();
    for (std::int64_t v = 0; v < window.valid; ++v)
      largest = std::max(largest, static_cast<Sum<T>>(logits_RV[row * window.local + v]));
    max_R[row] = largest;
  }
}

template <class T>
void logit_sums(const T* logits_RV, const std::int32_t* labels_R, const Sum<T>* max_R,
                std::int64_t rows, VocabularyWindow window, Sum<T>* sum_exp_R,
                Sum<T>* label_logit_R) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* logits = logits_RV + row * window.local;
    Sum<T> sum = 0;
    for (std::int64_t v = 0; v < window.valid; ++v)
      sum += std::exp(static_cast<Sum<T>>(logits[v]) - max_R[row]);
    const std::int64_t column = window.column_of(labels_R[row]);
    sum_exp_R[row] = sum;
    label_logit_R[row] = column < 0 ? 0 : static_cast<Sum<T>>(logits[column]) - max_R[row];
  }
}

template <class T>
void cross_entropy_gradient(const T* logits_RV, const std::int32_t* labels_R, const Sum<T>* lse_R,
                            std::int64_t rows, VocabularyWindow window, double scale,
                            T* logits_grad_RV) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t v = 0; v < window.local; ++v) {
      const std::int64_t i = row * window.local + v;
      if (labels_R[row] < 0 || v >= window.valid) {
        logits_grad_RV[i] = static_cast<T>(Sum<T>{0});
        continue;
      }
      const Sum<T> p = std::exp(static_cast<Sum<T>>(logits_RV[i]) - lse_R[row]);
      const Sum<T> hit = v == window.column_of(labels_R[row]) ? 1 : 0;
      logits_grad_RV[i] = static_cast<T>(static_cast<Sum<T>>(scale) * (p - hit));
    }
}

}  // namespace

Run prepare_row(const op::CrossEntropy&, const Problem& problem) {
  const LossSizes sizes = loss_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      cross_entropy<T>(operands[0].as<T>(), operands[1].as<std::int32_t>(), sizes,
                       operands[2].as<Sum<T>>(), operands[3].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::LogitMax& op, const Problem& problem) {
  const auto [rows, columns] = loss_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows = rows, window = vocabulary_window(op, columns)](Tensors operands, Workspace) {
      logit_max<T>(operands[0].as<T>(), rows, window, operands[1].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::LogitSums& op, const Problem& problem) {
  const auto [rows, columns] = loss_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows = rows, window = vocabulary_window(op, columns)](Tensors operands, Workspace) {
      logit_sums<T>(operands[0].as<T>(), operands[1].as<std::int32_t>(), operands[2].as<Sum<T>>(),
                    rows, window, operands[3].as<Sum<T>>(), operands[4].as<Sum<T>>());
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
      for (std::int64_t row = 0; row < rows; ++row) {
        const Sum<T> log_sum = std::log(sum_exp_R[row]);
        operands[4].as<Sum<T>>()[row] = labels_R[row] < 0 ? 0 : log_sum - label_logit_R[row];
        operands[5].as<Sum<T>>()[row] = max_R[row] + log_sum;
      }
    };
  });
}

Run prepare_row(const op::CrossEntropyGradient& op, const Problem& problem) {
  const auto [rows, columns] = loss_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows = rows, window = vocabulary_window(op, columns), scale = op.scale](
               Tensors operands, Workspace) {
      cross_entropy_gradient<T>(operands[0].as<T>(), operands[1].as<std::int32_t>(),
                                operands[2].as<Sum<T>>(), rows, window, scale, operands[3].as<T>());
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
  const auto [rows, columns] = loss_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [rows = rows, window = vocabulary_window(op, columns), accumulate = op.accumulate](
               Tensors operands, Workspace) {
      const T* logits_RV = operands[0].as<T>();
      const std::int32_t* labels_R = operands[1].as<std::int32_t>();
      const Sum<T>* max_R = operands[2].as<Sum<T>>();
      std::int64_t correct = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t column = window.column_of(labels_R[row]);
        if (column >= 0 &&
            static_cast<Sum<T>>(logits_RV[row * window.local + column]) == max_R[row])
          ++correct;
      }
      std::int64_t& count = *operands[3].as<std::int64_t>();
      count = accumulate ? wrapping_add(count, correct) : correct;
    };
  });
}

}  // namespace fourfold::kernels::reference
