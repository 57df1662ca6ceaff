// Norm of gradients, finiteness and AdamW on CPU; the scalar ops are those of reference/.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

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

// The loops over elements stand in functions of their own: inside a lambda the compiler reloads
// what was captured after every store and writes no vector code (measured: 4 to 5 times as slow).

template <class T>
double sum_of_squares(const T* x, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

/// Requires count < 2^31: the counter is as wide as an element, so that vectors of both have one
/// length.
template <class T>
std::int64_t non_finite_of(const T* x, std::int64_t count) {
  using Counter = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  Counter found = 0;
#pragma omp simd reduction(+ : found)
  for (std::int64_t i = 0; i < count; ++i)
    found += std::abs(x[i]) <= std::numeric_limits<T>::max() ? 0 : 1;
  return found;
}

template <class T>
void update_elements(const T* grad, const AdamWScalars& scalars, std::int64_t count, T* weight,
                     T* m, T* v) {
  const auto gradient_scale = static_cast<T>(scalars.gradient_scale);
  const auto beta1 = static_cast<T>(scalars.beta1),
             one_minus_beta1 = static_cast<T>(scalars.one_minus_beta1);
  const auto beta2 = static_cast<T>(scalars.beta2),
             one_minus_beta2 = static_cast<T>(scalars.one_minus_beta2);
  const auto keep = static_cast<T>(scalars.keep), step_size = static_cast<T>(scalars.step_size);
  const auto inverse_root = static_cast<T>(scalars.inverse_root),
             epsilon = static_cast<T>(scalars.epsilon);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = gradient_scale * grad[i];
    const T average = beta1 * m[i] + one_minus_beta1 * g;
    const T average_square = beta2 * v[i] + one_minus_beta2 * g * g;
    m[i] = average;
    v[i] = average_square;
    weight[i] = keep * weight[i] -
                step_size * average / (std::sqrt(average_square) * inverse_root + epsilon);
  }
}

/// body(piece, first, size) for every piece, threads sharing them.
template <class Body>
void for_pieces(std::int64_t count, int threads, Body&& body) {
  for_ranges(pieces_of(count), team_size(threads, count), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t piece = first; piece < last; ++piece) {
                 const std::int64_t begin = piece * piece_elements;
                 body(piece, begin, std::min(piece_elements, count - begin));
               }
             });
}

template <class T>
double squared_norm(const T* x, std::int64_t count, int threads, double* piece_sums) {
  for_pieces(count, threads, [=](std::int64_t piece, std::int64_t first, std::int64_t size) {
    piece_sums[piece] = sum_of_squares(x + first, size);
  });
  double sum = 0;
  for (std::int64_t piece = 0; piece < pieces_of(count); ++piece) sum += piece_sums[piece];
  return sum;
}

template <class T>
std::int64_t count_non_finite(const T* x, std::int64_t count, int threads) {
  std::atomic<std::int64_t> total = 0;
  for_pieces(count, threads, [&](std::int64_t, std::int64_t first, std::int64_t size) {
    const std::int64_t found = non_finite_of(x + first, size);
    if (found != 0) total.fetch_add(found, std::memory_order_relaxed);
  });
  return total.load(std::memory_order_relaxed);
}

template <class T>
void adamw(const T* grad, const AdamWScalars& scalars, std::int64_t count, int threads, T* weight,
           T* m, T* v) {
  for_ranges(
      count, team_size(threads, count), element_grain, [&](std::int64_t first, std::int64_t last) {
        update_elements(grad + first, scalars, last - first, weight + first, m + first, v + first);
      });
}

/// Updates a range of the elements of all tensors, laid end to end: tensor i begins at starts[i].
template <class T>
class AdamWListRun {
 public:
  AdamWListRun(const op::AdamWList& op, std::span<const std::int64_t> starts, Tensors operands)
      : op_(op), starts_(starts), operands_(operands) {
    for (const bool decays : {false, true})
      scalars_[decays ? 1 : 0] =
          adamw_scalars(op.one(decays ? -1 : op.decayed), *operands[0].as<double>(),
                        *operands[1].as<double>(), *operands[3].as<std::int64_t>());
  }

  void operator()(std::int64_t first, std::int64_t last) const {
    const auto place = std::upper_bound(starts_.begin(), starts_.end(), first) - 1;
    for (std::int64_t i = place - starts_.begin(); first < last; ++i) {
      const std::int64_t begin = first - start(i), end = std::min(last, start(i + 1)) - start(i);
      if (begin < end) update(i, begin, end - begin);
      first = std::max(first, start(i + 1));
    }
  }

 private:
  std::int64_t start(std::int64_t i) const { return starts_[static_cast<std::size_t>(i)]; }

  void update(std::int64_t i, std::int64_t begin, std::int64_t count) const {
    const auto at = [&](std::int64_t operand) {
      return operands_[static_cast<std::size_t>(operand)].as<T>() + begin;
    };
    const std::int64_t weight = 4 + op_.count() + 3 * i;
    update_elements<T>(at(4 + i), scalars_[i < op_.decayed ? 1 : 0], count, at(weight),
                       at(weight + 1), at(weight + 2));
  }

  const op::AdamWList& op_;
  std::span<const std::int64_t> starts_;
  Tensors operands_;
  std::array<AdamWScalars, 2> scalars_ = {};  // without and with decay
};

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

Run prepare_row(const op::Vote&, const Problem& problem) {
  return reference::prepare(problem);
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

Run prepare_row(const op::AdamWList& op, const Problem& problem) {
  std::vector<std::int64_t> starts = {0};
  for (std::int64_t i = 0; i < op.count(); ++i)
    starts.push_back(starts.back() + problem.shapes[static_cast<std::size_t>(4 + i)].elements());
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return
        [op, starts = std::move(starts), threads = problem.threads](Tensors operands, Workspace) {
          if (*operands[2].as<std::int64_t>() == 0) return;
          const AdamWListRun<T> run(op, starts, operands);
          for_ranges(starts.back(), team_size(threads, starts.back()), element_grain,
                     [&](std::int64_t first, std::int64_t last) { run(first, last); });
        };
  });
}

Run prepare_row(const op::CountUpdate&, const Problem& problem) {
  return reference::prepare(problem);
}

}  // namespace fourfold::kernels::cpu
