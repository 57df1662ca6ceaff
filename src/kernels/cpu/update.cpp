// Norm of gradients, finiteness and AdamW on CPU; the scalar ops are those of reference/.
#include <cmath>
#include <limits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"
#include "kernels/update_decision.h"

namespace fourfold::kernels::cpu {
namespace {

/// A sum over many elements is cut into pieces of this size whatever the number of threads, so that
/// its bits do not depend on it. 128 KiB of floats: a quarter of a second-level cache.
constexpr std::int64_t piece_elements = 32768;

std::int64_t pieces_of(std::int64_t count) {
  return (count + piece_elements - 1) / piece_elements;
}

template <class T>
double squared_norm(const T* x, std::int64_t count, int threads, double* piece_sums) {
  const std::int64_t pieces = pieces_of(count);
  for_ranges(pieces, team_size(threads, count), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t end = std::min(count, (piece + 1) * piece_elements);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = piece * piece_elements; i < end; ++i)
        sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      piece_sums[piece] = sum;
    }
  });
  double sum = 0;
  for (std::int64_t piece = 0; piece < pieces; ++piece) sum += piece_sums[piece];
  return sum;
}

template <class T>
std::int64_t count_non_finite(const T* x, std::int64_t count, int threads) {
  std::int64_t total = 0;
  const int team = team_size(threads, count);
#pragma omp parallel for simd num_threads(team) schedule(static) reduction(+ : total) if (team > 1)
  for (std::int64_t i = 0; i < count; ++i)
    total += std::abs(x[i]) <= std::numeric_limits<T>::max() ? 0 : 1;
  return total;
}

template <class T>
void adamw(const T* grad, const AdamWScalars& scalars, std::int64_t count, int threads, T* weight,
           T* m, T* v) {
  const auto gradient_scale = static_cast<T>(scalars.gradient_scale);
  const auto beta1 = static_cast<T>(scalars.beta1),
             one_minus_beta1 = static_cast<T>(scalars.one_minus_beta1);
  const auto beta2 = static_cast<T>(scalars.beta2),
             one_minus_beta2 = static_cast<T>(scalars.one_minus_beta2);
  const auto keep = static_cast<T>(scalars.keep), step_size = static_cast<T>(scalars.step_size);
  const auto inverse_root = static_cast<T>(scalars.inverse_root),
             epsilon = static_cast<T>(scalars.epsilon);
  for_ranges(
      count, team_size(threads, count), element_grain, [=](std::int64_t first, std::int64_t last) {
#pragma omp simd
        for (std::int64_t i = first; i < last; ++i) {
          const T g = gradient_scale * grad[i];
          const T average = beta1 * m[i] + one_minus_beta1 * g;
          const T average_square = beta2 * v[i] + one_minus_beta2 * g * g;
          m[i] = average;
          v[i] = average_square;
          weight[i] = keep * weight[i] -
                      step_size * average / (std::sqrt(average_square) * inverse_root + epsilon);
        }
      });
}

}  // namespace

Run prepare_row(const op::SquaredNorm& op, const Problem& problem) {
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [accumulate = op.accumulate, count = problem.shapes[0].elements(),
            threads = problem.threads](Tensors operands, Workspace workspace) {
      Scratch scratch(workspace.data());
      const double sum =
          squared_norm(operands[0].as<T>(), count, threads, scratch.take<double>(pieces_of(count)));
      double& out = *operands[1].as<double>();
      out = accumulate ? out + sum : sum;
    };
  });
}

std::int64_t workspace_bytes(const op::SquaredNorm&, const Problem& problem) {
  Scratch count(nullptr);
  count.take<double>(pieces_of(problem.shapes[0].elements()));
  return count.used_bytes();
}

Run prepare_row(const op::CountNonFinite& op, const Problem& problem) {
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [accumulate = op.accumulate, count = problem.shapes[0].elements(),
            threads = problem.threads](Tensors operands, Workspace) {
      const std::int64_t found = count_non_finite(operands[0].as<T>(), count, threads);
      std::int64_t& out = *operands[1].as<std::int64_t>();
      out = accumulate ? out + found : found;
    };
  });
}

Run prepare_row(const op::UpdateControl&, const Problem& problem) {
  return reference::prepare(problem);
}

Run prepare_row(const op::AdamW& op, const Problem& problem) {
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, count = problem.shapes[0].elements(), threads = problem.threads](Tensors operands,
                                                                                 Workspace) {
      if (*operands[3].as<std::int64_t>() == 0) return;
      const AdamWScalars scalars =
          adamw_scalars(op, *operands[1].as<double>(), *operands[2].as<double>(),
                        *operands[4].as<std::int64_t>());
      adamw<T>(operands[0].as<T>(), scalars, count, threads, operands[5].as<T>(),
               operands[6].as<T>(), operands[7].as<T>());
    };
  });
}

Run prepare_row(const op::CountUpdate&, const Problem& problem) {
  return reference::prepare(problem);
}

}  // namespace fourfold::kernels::cpu
