// Cross entropy, its gradient and the sum of losses on CPU. R rows (tokens), V vocabulary.
#include <cmath>

#include "kernels/cpu/math.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

struct LossSizes {
  std::int64_t rows, vocabulary;
};
LossSizes loss_sizes(const Shape& logits) {
  return {logits.elements(0, logits.rank() - 1), logits.back()};
}

template <class T>
T log_sum_exp(const T* logits_V, std::int64_t vocabulary) {
  T largest = logits_V[0], sum = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t v = 0; v < vocabulary; ++v)
    largest = largest < logits_V[v] ? logits_V[v] : largest;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t v = 0; v < vocabulary; ++v) sum += exp_of(logits_V[v] - largest);
  return largest + std::log(sum);
}

template <class T>
void cross_entropy(const T* logits_RV, const std::int32_t* labels_R, LossSizes sizes, int threads,
                   T* loss_R, T* lse_R) {
  const int team = team_size(threads, sizes.rows * sizes.vocabulary);
  for_ranges(sizes.rows, team, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* logits = logits_RV + row * sizes.vocabulary;
      lse_R[row] = log_sum_exp(logits, sizes.vocabulary);
      loss_R[row] = labels_R[row] < 0 ? T{0} : lse_R[row] - logits[labels_R[row]];
    }
  });
}

template <class T>
void cross_entropy_gradient(const T* logits_RV, const std::int32_t* labels_R, const T* lse_R,
                            LossSizes sizes, double scale, int threads, T* logits_grad_RV) {
  const int team = team_size(threads, sizes.rows * sizes.vocabulary);
  const auto factor = static_cast<T>(scale);
  for_ranges(sizes.rows, team, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const T* logits = logits_RV + row * sizes.vocabulary;
      T* grad = logits_grad_RV + row * sizes.vocabulary;
      const T lse = lse_R[row];
      if (labels_R[row] < 0) {
        std::fill_n(grad, sizes.vocabulary, T{0});
        continue;
      }
      const T label_grad = factor * (exp_of(logits[labels_R[row]] - lse) - 1);
#pragma omp simd
      for (std::int64_t v = 0; v < sizes.vocabulary; ++v)
        grad[v] = factor * exp_of(logits[v] - lse);
      grad[labels_R[row]] = label_grad;
    }
  });
}

}  // namespace

Run prepare_row(const op::CrossEntropy&, const Problem& problem) {
  const LossSizes sizes = loss_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      cross_entropy<T>(operands[0].as<T>(), operands[1].as<std::int32_t>(), sizes, threads,
                       operands[2].as<T>(), operands[3].as<T>());
    };
  });
}

Run prepare_row(const op::CrossEntropyGradient& op, const Problem& problem) {
  const LossSizes sizes = loss_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, scale = op.scale, threads = problem.threads](Tensors operands, Workspace) {
      cross_entropy_gradient<T>(operands[0].as<T>(), operands[1].as<std::int32_t>(),
                                operands[2].as<T>(), sizes, scale, threads, operands[3].as<T>());
    };
  });
}

Run prepare_row(const op::LossSum& op, const Problem& problem) {
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [accumulate = op.accumulate, rows = problem.shapes[0].elements()](Tensors operands,
                                                                             Workspace) {
      const T* loss_R = operands[0].as<T>();
      const std::int32_t* labels_R = operands[1].as<std::int32_t>();
      double sum = 0;
      std::int64_t count = 0;
#pragma omp simd reduction(+ : sum, count)
      for (std::int64_t row = 0; row < rows; ++row) {
        sum += static_cast<double>(loss_R[row]);
        count += labels_R[row] < 0 ? 0 : 1;
      }
      double& loss_sum = *operands[2].as<double>();
      std::int64_t& token_count = *operands[3].as<std::int64_t>();
      loss_sum = accumulate ? loss_sum + sum : sum;
      token_count = accumulate ? token_count + count : count;
    };
  });
}

}  // namespace fourfold::kernels::cpu
