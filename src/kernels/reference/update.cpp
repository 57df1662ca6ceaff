// Reference norm of gradients, the decision about an update, and the optimizers;
// op::SquaredNorm ... op::CountUpdate say what they compute.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"
#include "kernels/update_decision.h"
#include "kernels/update_operands.h"

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

Run prepare_row(const op::Vote&, const Problem&) {
  return [](Tensors operands, Workspace) {
    const bool fit = is_fit(*operands[1].as<double>(), *operands[2].as<double>(),
                            *operands[3].as<std::int64_t>(), *operands[4].as<std::int64_t>(),
                            *operands[5].as<double>());
    *operands[6].as<std::int64_t>() =
        wrapping_add(*operands[0].as<std::int64_t>(), op::Votes{.against = fit ? 0 : 1}.packed());
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

/// How many elements it found not finite.
template <class Row, class T>
std::int64_t update(const Update<Row, Sum<T>>& update, const T* grad, std::int64_t count,
                    const std::array<T*, UpdateOperands<Row>::states>& state) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Sum<T> element[UpdateOperands<Row>::states];
    for (std::size_t s = 0; s < state.size(); ++s) element[s] = static_cast<Sum<T>>(state[s][i]);
    if (!update_element(update, static_cast<Sum<T>>(grad[i]), element, MomentsOf<Row>())) ++found;
    for (std::size_t s = 0; s < state.size(); ++s) state[s][i] = static_cast<T>(element[s]);
  }
  return found;
}

/// Updates the tensors that begin at operand `first_state`, and rounds the weight where the row
/// does. T is the type of the computation, X that of the tensors.
template <class Row, class T, class X>
std::int64_t update_and_round(const Row& op, const UpdateStep& step, Tensors operands,
                              std::size_t gradient, std::size_t first_state) {
  const Tensor& grad = operands[gradient];
  const auto states = states_of<Row, X>(operands, first_state);
  const std::int64_t found =
      update<Row, X>(Update<Row, Sum<X>>(op, step), grad.as<X>(), grad.elements(), states);
  if (T* const copy = rounded_of<Row, T>(operands, first_state, op.rounds); copy != nullptr)
    for (std::int64_t i = 0; i < grad.elements(); ++i) copy[i] = static_cast<T>(states[0][i]);
  return found;
}

/// make(As<T>{}, As<X>{}): the type of the computation, and that of what an update reads and keeps.
template <class Make>
Run for_update(DType dtype, bool rounds, Make&& make) {
  return for_storage(dtype, [&]<class T>(As<T>) -> Run {
    return rounds ? make(As<T>{}, As<Sum<T>>{}) : make(As<T>{}, As<T>{});
  });
}

/// Updates one tensor, whose operands stand where the row has them: the gradient first.
template <class Row>
Run prepare_update(const Row& op, const Problem& problem) {
  return for_update(problem.dtype, op.rounds, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [op](Tensors operands, Workspace) {
      std::int64_t found = 0;
      if (is_applied<Row>(operands, 1))
        found = update_and_round<Row, T, X>(op, update_step<Row>(operands, 1), operands, 0,
                                            1 + UpdateOperands<Row>::scalars);
      count_found(operands, op.accumulate, found);
    };
  });
}

template <class List>
Run prepare_updates(const List& op, const Problem& problem) {
  using Row = typename List::One;
  return for_update(problem.dtype, op.rounds, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [op](Tensors operands, Workspace) {
      std::int64_t found = 0;
      const UpdateStep step = update_step<Row>(operands, 0);
      for (std::int64_t i = 0; i < op.count() && is_applied<Row>(operands, 0); ++i) {
        const ListPlaces<Row> places(op.count(), i, op.rounds);
        found += update_and_round<Row, T, X>(op.one(i), step, operands, places.gradient,
                                             places.first_state);
      }
      count_found(operands, op.accumulate, found);
    };
  });
}

}  // namespace

FOURFOLD_OPTIMIZERS(FOURFOLD_PREPARE_UPDATES, Run)

Run prepare_row(const op::MovingAverage& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [decay = op.decay, count = problem.shapes[0].elements()](Tensors operands, Workspace) {
      using S = Sum<T>;
      if (*operands[1].as<std::int64_t>() == 0) return;
      const T* weight = operands[0].as<T>();
      T* average = operands[2].as<T>();
      for (std::int64_t i = 0; i < count; ++i)
        average[i] = static_cast<T>(static_cast<S>(decay) * static_cast<S>(average[i]) +
                                    static_cast<S>(1 - decay) * static_cast<S>(weight[i]));
    };
  });
}

namespace {

void add_count(Tensors operands, Workspace) {
  std::int64_t& total = *operands[1].as<std::int64_t>();
  total = wrapping_add(total, *operands[0].as<std::int64_t>());
}

}  // namespace

Run prepare_row(const op::CountUpdate&, const Problem&) {
  return add_count;
}

Run prepare_row(const op::CountNonFinite&, const Problem&) {
  return add_count;
}

}  // namespace fourfold::kernels::reference
