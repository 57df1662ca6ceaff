// Norm of gradients and the optimizers on CPU; the scalar ops are those of reference/.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"
#include "kernels/update_operands.h"

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
    sum += static_cast<double>(summed(x[i])) * static_cast<double>(summed(x[i]));
  return sum;
}

/// As wide as the sum of elements, so that vectors of both have one length; counts are below 2^31.
template <class T>
using Counter = std::conditional_t<sizeof(Sum<T>) == 4, std::int32_t, std::int64_t>;

// How many elements they found not finite. Requires count < 2^31.

template <class Row, class T>
std::int64_t update_elements(const Update<Row, Sum<T>>& of_step, const T* grad, std::int64_t count,
                             const std::array<T*, UpdateOperands<Row>::states>& of_tensor) {
  // Copies, which no store to a tensor can change.
  const Update<Row, Sum<T>> update = of_step;
  constexpr std::size_t states = UpdateOperands<Row>::states;
  T* state[states];
  for (std::size_t s = 0; s < states; ++s) state[s] = of_tensor[s];
  Counter<T> found = 0;
  // Not `omp simd`, which would keep the array in memory.
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    Sum<T> element[states];
#pragma GCC unroll 4
    for (std::size_t s = 0; s < states; ++s) element[s] = summed(state[s][i]);
    const bool is_finite = update_element(update, summed(grad[i]), element, MomentsOf<Row>());
#pragma GCC unroll 4
    for (std::size_t s = 0; s < states; ++s) store(state[s][i], element[s]);
    found += is_finite ? 0 : 1;
  }
  return found;
}

/// As many elements as one call takes where the weights are copied too: they are then still in a
/// first-level cache.
constexpr std::int64_t most_copied = 2048;
/// Elements that one call may count.
constexpr std::int64_t most_counted = std::int64_t{1} << 30;

/// Almost always nothing, which costs nothing.
void add(std::atomic<std::int64_t>& total, std::int64_t found) {
  if (found != 0) total.fetch_add(found, std::memory_order_relaxed);
}

/// The rounded weights: in f32 and f64 as they are.
template <class X, class T>
void copy_weights(const X* weight, std::int64_t count, T* copy) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store(copy[i], summed(weight[i]));
}

/// The same tensors from an element on.
template <class T, std::size_t Count>
std::array<T*, Count> from(std::array<T*, Count> state, std::int64_t element) {
  for (T*& tensor : state) tensor += element;
  return state;
}

/// Updates `count` elements of a tensor from `first` on, and copies the weights to `copy` where it
/// is not null. How many elements it found not finite.
template <class Row, class X, class T, std::size_t Count>
std::int64_t update_range(const Update<Row, Sum<X>>& update, const X* grad, std::int64_t first,
                          std::int64_t count, const std::array<X*, Count>& state, T* copy) {
  std::int64_t found = 0;
  const std::int64_t most = copy == nullptr ? most_counted : most_copied;
  for (const std::int64_t end = first + count; first < end; first += most) {
    const std::int64_t size = std::min(most, end - first);
    const std::array<X*, Count> here = from(state, first);
    found += update_elements<Row, X>(update, grad + first, size, here);
    if (copy != nullptr) copy_weights(here[0], size, copy + first);
  }
  return found;
}

/// The pieces of several tensors, numbered one tensor after another.
class Pieces {
 public:
  explicit Pieces(std::span<const Shape> tensors) {
    for (const Shape& shape : tensors) {
      counts_.push_back(shape.elements());
      elements_ += shape.elements();
      first_.push_back(first_.back() + pieces_of(shape.elements()));
    }
  }
  std::int64_t count() const { return first_.back(); }
  std::int64_t elements() const { return elements_; }

  /// body(piece, tensor, first element, number of elements) for every piece, threads sharing them.
  template <class Body>
  void for_each(int threads, Body&& body) const {
    for_ranges(count(), team_size(threads, elements_), 1,
               [&](std::int64_t begin, std::int64_t end) {
                 std::size_t tensor = 0;
                 for (std::int64_t piece = begin; piece < end; ++piece) {
                   while (first_[tensor + 1] <= piece) ++tensor;
                   const std::int64_t first = (piece - first_[tensor]) * piece_elements;
                   body(piece, tensor, first, std::min(piece_elements, counts_[tensor] - first));
                 }
               });
  }
  /// The sum of what each piece has, first over each tensor, then over tensors: the bits are those
  /// of a sum of its own for each tensor, added up in turn.
  double sum(const double* of_pieces, double start) const {
    for (std::size_t tensor = 0; tensor < counts_.size(); ++tensor) {
      double own = 0;
      for (std::int64_t piece = first_[tensor]; piece < first_[tensor + 1]; ++piece)
        own += of_pieces[piece];
      start += own;
    }
    return start;
  }

 private:
  std::vector<std::int64_t> counts_, first_ = {0};
  std::int64_t elements_ = 0;
};

/// average = decay average + (1 - decay) weight for `count` elements.
template <class T>
void average_elements(double decay, const T* weight, std::int64_t count, T* average) {
  const auto kept = static_cast<Sum<T>>(decay), share = static_cast<Sum<T>>(1 - decay);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    store(average[i], kept * summed(average[i]) + share * summed(weight[i]));
}

Pieces pieces_of_reads(const Problem& problem) {
  return Pieces(std::span(problem.shapes).first(problem.shapes.size() - 1));
}

/// Updates one tensor. T is the type of the computation, X that of what an update reads and keeps.
template <class Row>
Run prepare_update(const Row& op, const Problem& problem) {
  return for_wide(op.rounds, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [op, count = problem.shapes[0].elements(), threads = problem.threads](Tensors operands,
                                                                                 Workspace) {
      std::atomic<std::int64_t> found = 0;
      const Update<Row, Sum<X>> update(op, update_step<Row>(operands, 1));
      const X* grad = operands[0].as<X>();
      constexpr std::size_t first_state = 1 + UpdateOperands<Row>::scalars;
      const auto states = states_of<Row, X>(operands, first_state);
      T* const copy = rounded_of<Row, T>(operands, first_state, op.rounds);
      if (is_applied<Row>(operands, 1))
        for_ranges(count, team_size(threads, count), element_grain,
                   [&](std::int64_t first, std::int64_t last) {
                     add(found, update_range<Row>(update, grad, first, last - first, states, copy));
                   });
      count_found(operands, op.accumulate, found);
    };
  });
}

/// Updates a range of the elements of all tensors, laid end to end: tensor i begins at starts[i].
template <class T, class X, class List>
class ListRun {
 public:
  using Row = typename List::One;

  ListRun(const List& op, std::span<const std::int64_t> starts, Tensors operands)
      : op_(op), starts_(starts), operands_(operands) {
    const UpdateStep step = update_step<Row>(operands, 0);
    for (const bool decays : {false, true})
      updates_[decays ? 1 : 0] = Update<Row, Sum<X>>(op.one(decays ? -1 : op.decayed), step);
  }

  /// How many elements it found not finite.
  std::int64_t operator()(std::int64_t first, std::int64_t last) const {
    std::int64_t found = 0;
    const auto place = std::upper_bound(starts_.begin(), starts_.end(), first) - 1;
    for (std::int64_t i = place - starts_.begin(); first < last; ++i) {
      const std::int64_t begin = first - start(i), end = std::min(last, start(i + 1)) - start(i);
      found += update(i, begin, end - begin);
      first = std::max(first, start(i + 1));
    }
    return found;
  }

 private:
  std::int64_t start(std::int64_t i) const { return starts_[static_cast<std::size_t>(i)]; }

  std::int64_t update(std::int64_t i, std::int64_t begin, std::int64_t count) const {
    const ListPlaces<Row> places(op_.count(), i, op_.rounds);
    return update_range<Row>(updates_[i < op_.decayed ? 1 : 0],
                             operands_[places.gradient].template as<X>(), begin, count,
                             states_of<Row, X>(operands_, places.first_state),
                             rounded_of<Row, T>(operands_, places.first_state, op_.rounds));
  }

  const List& op_;
  std::span<const std::int64_t> starts_;
  Tensors operands_;
  // Without and with decay.
  std::array<Update<Row, Sum<X>>, 2> updates_ = {};
};

template <class List>
Run prepare_updates(const List& op, const Problem& problem) {
  using Row = typename List::One;
  std::vector<std::int64_t> starts = {0};
  for (std::int64_t i = 0; i < op.count(); ++i)
    starts.push_back(starts.back() +
                     problem.shapes[ListPlaces<Row>(op.count(), i, op.rounds).gradient].elements());
  return for_wide(op.rounds, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [op, starts = std::move(starts), threads = problem.threads](Tensors operands,
                                                                       Workspace) {
      std::atomic<std::int64_t> found = 0;
      const ListRun<T, X, List> run(op, starts, operands);
      if (is_applied<Row>(operands, 0))
        for_ranges(starts.back(), team_size(threads, starts.back()), element_grain,
                   [&](std::int64_t first, std::int64_t last) { add(found, run(first, last)); });
      count_found(operands, op.accumulate, found);
    };
  });
}

}  // namespace

Run prepare_row(const op::SquaredNorm& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [accumulate = op.accumulate, pieces = pieces_of_reads(problem),
            threads = problem.threads](Tensors operands, Workspace workspace) {
      Scratch scratch(workspace.data());
      auto* sums = scratch.take<double>(pieces.count());
      pieces.for_each(threads, [&](std::int64_t piece, std::size_t tensor, std::int64_t first,
                                   std::int64_t size) {
        sums[piece] = sum_of_squares(operands[tensor].as<T>() + first, size);
      });
      double& out = *operands.back().as<double>();
      out = pieces.sum(sums, accumulate ? out : 0);
    };
  });
}

std::int64_t workspace_bytes(const op::SquaredNorm&, const Problem& problem) {
  Scratch count(nullptr);
  count.take<double>(pieces_of_reads(problem).count());
  return count.used_bytes();
}

Run prepare_row(const op::Vote&, const Problem& problem) {
  return reference::prepare(problem);
}

Run prepare_row(const op::UpdateControl&, const Problem& problem) {
  return reference::prepare(problem);
}

FOURFOLD_OPTIMIZERS(FOURFOLD_PREPARE_UPDATES, Run)

Run prepare_row(const op::MovingAverage& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [decay = op.decay, count = problem.shapes[0].elements(), threads = problem.threads](
               Tensors operands, Workspace) {
      if (*operands[1].as<std::int64_t>() == 0) return;
      const T* weight = operands[0].as<T>();
      T* average = operands[2].as<T>();
      for_ranges(count, team_size(threads, count), element_grain,
                 [=](std::int64_t first, std::int64_t last) {
                   average_elements(decay, weight + first, last - first, average + first);
                 });
    };
  });
}

Run prepare_row(const op::MovingAverageList& op, const Problem& problem) {
  const auto tensors = static_cast<std::size_t>(op.count());
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [decay = op.decay, tensors,
            pieces = Pieces(std::span(problem.shapes).subspan(1, tensors)),
            threads = problem.threads](Tensors operands, Workspace) {
      if (*operands[0].as<std::int64_t>() == 0) return;
      pieces.for_each(threads,
                      [&](std::int64_t, std::size_t tensor, std::int64_t first, std::int64_t size) {
                        average_elements(decay, operands[1 + tensor].as<T>() + first, size,
                                         operands[1 + tensors + tensor].as<T>() + first);
                      });
    };
  });
}

Run prepare_row(const op::CountUpdate&, const Problem& problem) {
  return reference::prepare(problem);
}

Run prepare_row(const op::CountNonFinite&, const Problem& problem) {
  return reference::prepare(problem);
}

}  // namespace fourfold::kernels::cpu
