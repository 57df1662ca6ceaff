// What stands before attention, on CPU: op::Rotary, op::HeadNorm and its gradients. D head width.
#include <algorithm>
#include <optional>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/norm_row.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/document_starts.h"
#include "kernels/rotary.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// Scratch of one thread: the turns of the pairs at one position.
template <class S>
struct Turns {
  S *cosines, *sines;
  Turns(Scratch& scratch, std::int64_t pairs)
      : cosines(scratch.take<S>(pairs)), sines(scratch.take<S>(pairs)) {}
};
template <class S>
std::int64_t bytes_of_turns(std::int64_t pairs) {
  Scratch count(nullptr);
  Turns<S>(count, pairs);
  return count.used_bytes();
}

template <class T>
void turn_vector(const T* x_D, const Turns<Sum<T>>& turns, std::int64_t pairs, T* y_D) {
  const auto [cosines, sines] = turns;
#pragma omp simd
  for (std::int64_t i = 0; i < pairs; ++i) {
    const Sum<T> a = summed(x_D[i]), b = summed(x_D[pairs + i]);
    store(y_D[i], a * cosines[i] - b * sines[i]);
    store(y_D[pairs + i], b * cosines[i] + a * sines[i]);
  }
}

/// Threads share tokens, those of one position one after another: their turns are computed once. y
/// may be qkv.
template <class T>
void rotary(const T* qkv, const QkvVectors& sizes, const op::Rotary& op, std::int64_t first,
            const DocumentStarts& documents, int threads, std::byte* workspace, T* y) {
  using S = Sum<T>;
  const auto pairs = static_cast<std::int64_t>(op.frequencies.size());
  const int parts = team_size(threads, sizes.tokens() * sizes.of_token() * sizes.width);
  for_parts(parts, [&](int part) {
    Scratch scratch(workspace + part * bytes_of_turns<S>(pairs));
    const Turns<S> turns(scratch, pairs);
    std::optional<std::int64_t> turned;
    const Range tokens = range_of(part, parts, sizes.tokens(), 1);
    for (std::int64_t i = tokens.first; i < tokens.last; ++i) {
      const std::int64_t sample = i % sizes.batch, t = i / sizes.batch;
      const std::int64_t position = first + t - documents.first_key(sample, t);
      if (position != turned) {
        for (std::int64_t pair = 0; pair < pairs; ++pair) {
          const Turn turn = turn_of(op, position, static_cast<std::size_t>(pair));
          turns.cosines[pair] = static_cast<S>(turn.cosine);
          turns.sines[pair] = static_cast<S>(turn.sine);
        }
        turned = position;
      }
      const std::int64_t at = (sample * sizes.time + t) * sizes.of_token() * sizes.width;
      for (std::int64_t vector = 0; vector < sizes.of_token(); ++vector) {
        const T* x = qkv + at + vector * sizes.width;
        T* to = y + at + vector * sizes.width;
        const bool stays = sizes.is_value(vector);
        if (!stays) turn_vector(x, turns, pairs, to);
        const std::int64_t done = stays ? 0 : 2 * pairs;
        if (to != x) std::copy(x + done, x + sizes.width, to + done);
      }
    }
  });
}

/// body(number of the vector among all) for all vectors, threads sharing tokens.
template <class Body>
void for_vectors(const QkvVectors& sizes, int threads, Body body) {
  const std::int64_t of_token = sizes.of_token();
  for_ranges(sizes.tokens(), team_size(threads, sizes.tokens() * of_token * sizes.width), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t vector = first * of_token; vector < last * of_token; ++vector)
                 body(vector);
             });
}

}  // namespace

Run prepare_row(const op::Rotary& op, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes, threads = problem.threads](Tensors operands, Workspace workspace) {
      const RotaryOperands at(op);
      rotary(operands[0].as<T>(), sizes, op, at.first(op, operands),
             document_starts(op, operands, at.starts), threads, workspace.data(),
             operands[at.y].as<T>());
    };
  });
}

std::int64_t workspace_bytes(const op::Rotary& op, const Problem& problem) {
  const auto pairs = static_cast<std::int64_t>(op.frequencies.size());
  return problem.threads * (problem.dtype == DType::f64 ? bytes_of_turns<double>(pairs)
                                                        : bytes_of_turns<float>(pairs));
}

Run prepare_row(const op::HeadNorm& op, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T *qkv = operands[0].as<T>(), *q_gain_D = operands[1].as<T>(),
              *k_gain_D = operands[2].as<T>();
      T* y = operands[3].as<T>();
      Sum<T>* rstd = operands[4].as<Sum<T>>();
      for_vectors(sizes, threads, [=](std::int64_t vector) {
        const T* x = qkv + vector * sizes.width;
        T* to = y + vector * sizes.width;
        if (sizes.is_value(vector)) return void(std::copy_n(x, sizes.width, to));
        const T* gain = sizes.is_key(vector) ? k_gain_D : q_gain_D;
        rstd[sizes.in_rstd(vector)] =
            root_mean_square_row(x, gain, sizes.width, op.epsilon, to).rstd;
      });
    };
  });
}

Run prepare_row(const op::HeadNormGradient&, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T *qkv = operands[0].as<T>(), *q_gain_D = operands[1].as<T>(),
              *k_gain_D = operands[2].as<T>();
      const Sum<T>* rstd = operands[3].as<Sum<T>>();
      const T* y_grad = operands[4].as<T>();
      T* qkv_grad = operands[5].as<T>();
      for_vectors(sizes, threads, [=](std::int64_t vector) {
        const T *x = qkv + vector * sizes.width, *grad = y_grad + vector * sizes.width;
        T* to = qkv_grad + vector * sizes.width;
        if (!sizes.is_value(vector))
          root_mean_square_gradient_row(x, sizes.is_key(vector) ? k_gain_D : q_gain_D,
                                        rstd[sizes.in_rstd(vector)], grad, sizes.width, to);
        else if (to != grad)
          std::copy_n(grad, sizes.width, to);
      });
    };
  });
}

Run prepare_row(const op::HeadNormWeightGradient& op, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T* qkv = operands[0].as<T>();
      const Sum<T>* rstd = operands[1].as<Sum<T>>();
      const T* y_grad = operands[2].as<T>();
      const auto term = [=](std::int64_t vector, std::int64_t d) {
        const std::int64_t at = vector * sizes.width + d;
        return summed(y_grad[at]) * (summed(qkv[at]) * rstd[sizes.in_rstd(vector)]);
      };
      const std::int64_t keys = sizes.tokens() * sizes.groups,
                         queries = keys * (sizes.of_group - 2);
      sum_columns<Sum<T>>(
          queries, sizes.width, op.accumulate, threads,
          [=](std::int64_t index, std::int64_t d) { return term(sizes.query(index), d); },
          operands[3].as<Sum<T>>());
      sum_columns<Sum<T>>(
          keys, sizes.width, op.accumulate, threads,
          [=](std::int64_t index, std::int64_t d) { return term(sizes.key(index), d); },
          operands[4].as<Sum<T>>());
    };
  });
}

}  // namespace fourfold::kernels::cpu
