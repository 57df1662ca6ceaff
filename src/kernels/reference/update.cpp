// Reference norm of gradients, the decision about an update, and the optimizers;
// op::SquaredNorm ... op::CountUpdate say what they compute.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "base/checked.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"
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

/// Writes a weight where it and its moments are finite; counts it where not.
template <class T>
void write_finite(Sum<T> value, std::initializer_list<Sum<T>> moments, T& weight,
                  std::int64_t& found) {
  const auto is_finite = [](Sum<T> x) { return std::isfinite(x); };
  if (is_finite(value) && std::ranges::all_of(moments, is_finite))
    weight = static_cast<T>(value);
  else
    ++found;
}

/// How many elements it found not finite.
template <class T>
std::int64_t update(const AdamWScalars& scalars, const T* grad, std::int64_t count,
                    const std::array<T*, 3>& state) {
  using S = Sum<T>;
  const auto [weight, m, v] = state;
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const S g = static_cast<S>(scalars.gradient_scale) * static_cast<S>(grad[i]);
    const S first = static_cast<S>(scalars.beta1) * static_cast<S>(m[i]) +
                    static_cast<S>(scalars.one_minus_beta1) * g;
    const S second = static_cast<S>(scalars.beta2) * static_cast<S>(v[i]) +
                     static_cast<S>(scalars.one_minus_beta2) * g * g;
    const S divisor =
        std::sqrt(second) * static_cast<S>(scalars.inverse_root) + static_cast<S>(scalars.epsilon);
    const S value = static_cast<S>(scalars.keep) * static_cast<S>(weight[i]) -
                    static_cast<S>(scalars.step_size) * first / divisor;
    m[i] = static_cast<T>(first);
    v[i] = static_cast<T>(second);
    write_finite(value, {first, second}, weight[i], found);
  }
  return found;
}

template <class T>
std::int64_t update(const SgdScalars& scalars, const T* grad, std::int64_t count,
                    const std::array<T*, 2>& state) {
  using S = Sum<T>;
  const auto [weight, momentum] = state;
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const S g = static_cast<S>(scalars.gradient_scale) * static_cast<S>(grad[i]) +
                static_cast<S>(scalars.weight_decay) * static_cast<S>(weight[i]);
    const S average = static_cast<S>(scalars.mu) * static_cast<S>(momentum[i]) + g;
    const S value = static_cast<S>(weight[i]) - (static_cast<S>(scalars.step_size) * average +
                                                 static_cast<S>(scalars.gradient_step) * g);
    momentum[i] = static_cast<T>(average);
    write_finite(value, {average}, weight[i], found);
  }
  return found;
}

/// Updates the tensors that begin at operand `first_state`, and rounds the weight where the row
/// does. T is the type of the computation, X that of the tensors.
template <class Row, class T, class X, class Scalars>
std::int64_t update_and_round(const Scalars& scalars, Tensors operands, std::size_t gradient,
                              std::size_t first_state, bool rounds) {
  const Tensor& grad = operands[gradient];
  const auto states = states_of<Row, X>(operands, first_state);
  const std::int64_t found = update<X>(scalars, grad.as<X>(), grad.elements(), states);
  if (T* const copy = rounded_of<Row, T>(operands, first_state, rounds); copy != nullptr)
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
        found = update_and_round<Row, T, X>(scalars_of(op, update_step<Row>(operands, 1)), operands,
                                            0, 1 + UpdateOperands<Row>::scalars, op.rounds);
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
        found += update_and_round<Row, T, X>(scalars_of(op.one(i), step), operands, places.gradient,
                                             places.first_state, op.rounds);
      }
      count_found(operands, op.accumulate, found);
    };
  });
}

}  // namespace

Run prepare_row(const op::AdamW& op, const Problem& problem) {
  return prepare_update(op, problem);
}
Run prepare_row(const op::Sgd& op, const Problem& problem) {
  return prepare_update(op, problem);
}
Run prepare_row(const op::AdamWList& op, const Problem& problem) {
  return prepare_updates(op, problem);
}
Run prepare_row(const op::SgdList& op, const Problem& problem) {
  return prepare_updates(op, problem);
}

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
