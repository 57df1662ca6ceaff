// Where the operands of an optimizer's rows stand, for one tensor and in lists.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/checked.h"
#include "kernels/kernel.h"
#include "kernels/optimizers.h"

namespace fourfold::kernels {

/// How many scalars a row of an optimizer reads, in the order lr, scale, applied, updates, and how
/// many tensors it updates, the weight first.
template <class Row>
struct UpdateOperands {
  static constexpr std::size_t scalars = Row::update.counts_updates ? 4 : 3;
  static constexpr std::size_t states = 1 + Row::update.num_moments;
};

/// Places in a list of `tensors` updates; where they round, each tensor has one operand more.
template <class Row>
struct ListPlaces {
  ListPlaces(std::int64_t tensors, std::int64_t index, bool rounds)
      : gradient(UpdateOperands<Row>::scalars + static_cast<std::size_t>(index)),
        first_state(UpdateOperands<Row>::scalars + static_cast<std::size_t>(tensors) +
                    (UpdateOperands<Row>::states + (rounds ? 1U : 0U)) *
                        static_cast<std::size_t>(index)) {}
  std::size_t gradient, first_state;
};

/// True if an element that an update would leave so is one that it writes. Vectors see no branch.
template <class T, class... More>
FOURFOLD_CUDA inline bool are_finite(T weight, More... moments) {
  return T(0) * weight + (... + (T(0) * moments)) == T(0);
}

/// Updates one element, of which `state` holds the weight and its moments; the weight is kept where
/// any of them is not finite. True if all are finite.
template <class Update, class S, std::size_t... moment>
FOURFOLD_CUDA inline bool update_element(const Update& update, S grad, S* state,
                                         std::index_sequence<moment...>) {
  const S value = update(grad, state[0], state[1 + moment]...);
  const bool is_finite = are_finite(value, state[1 + moment]...);
  state[0] = is_finite ? value : state[0];
  return is_finite;
}
template <class Row>
using MomentsOf = std::make_index_sequence<Row::update.num_moments>;

/// Adds up, in the last operand, how many elements an update has found not finite.
inline void count_found(Tensors operands, bool accumulate, std::int64_t found) {
  std::int64_t& out = *operands.back().as<std::int64_t>();
  out = accumulate ? wrapping_add(out, found) : found;
}

/// True if the step is one that writes; the scalars begin at operand `first`.
template <class Row>
bool is_applied(Tensors operands, std::size_t first) {
  return *operands[first + 2].as<std::int64_t>() != 0;
}

template <class Row>
UpdateStep update_step(Tensors operands, std::size_t first) {
  constexpr bool counts = UpdateOperands<Row>::scalars > 3;
  return {*operands[first].as<double>(), *operands[first + 1].as<double>(),
          counts ? *operands[first + 3].as<std::int64_t>() : 0};
}

/// Where the rounded weight goes, after the tensors that begin at operand `first_state`; null
/// where the row does not round.
template <class Row, class T>
T* rounded_of(Tensors operands, std::size_t first_state, bool rounds) {
  return rounds ? operands[first_state + UpdateOperands<Row>::states].template as<T>() : nullptr;
}

/// The tensors that a row updates, which begin at operand `first`.
template <class Row, class T>
std::array<T*, UpdateOperands<Row>::states> states_of(Tensors operands, std::size_t first) {
  std::array<T*, UpdateOperands<Row>::states> states;
  for (std::size_t i = 0; i < states.size(); ++i) states[i] = operands[first + i].as<T>();
  return states;
}

/// The functions of a backend that prepare an optimizer's row and its list; `Prepared` is their
/// type: FOURFOLD_OPTIMIZERS(FOURFOLD_PREPARE_UPDATES, Run).
#define FOURFOLD_PREPARE_UPDATES(Row, Prepared)                           \
  Prepared prepare_row(const op::Row& op, const Problem& problem) {       \
    return prepare_update(op, problem);                                   \
  }                                                                       \
  Prepared prepare_row(const op::Row##List& op, const Problem& problem) { \
    return prepare_updates(op, problem);                                  \
  }

}  // namespace fourfold::kernels
