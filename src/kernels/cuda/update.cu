// The votes and the decision about an update, the optimizers, and what is counted on the device;
// op::Vote ... op::CountUpdate say what they compute. All scalars are read and written where they
// lie, by kernels.
#include <algorithm>
#include <vector>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/tensor_list.cuh"
#include "kernels/update_decision.h"
#include "kernels/update_operands.h"

namespace fourfold::kernels::cuda {
namespace {

struct VoteOperands {
  const std::int64_t* own;
  const double *squared_norm, *loss_sum;
  const std::int64_t *valid_count, *non_finite;
  const double* lr;
  std::int64_t* votes;
};

__global__ void vote(VoteOperands of) {
  begin_kernel();
  if (threadIdx.x != 0) return;
  const bool fit = is_fit(*of.squared_norm, *of.loss_sum, *of.valid_count, *of.non_finite, *of.lr);
  *of.votes = *of.own + op::Votes{.against = fit ? 0 : 1}.packed();
}

__global__ void update_control(op::UpdateControl row, const double* squared_norm,
                               const std::int64_t* valid_count, const std::int64_t* votes,
                               double* grad_norm, double* scale, std::int64_t* applied) {
  begin_kernel();
  if (threadIdx.x != 0) return;
  const UpdateDecision decision =
      decide_update(row, *squared_norm, *valid_count, op::Votes::of(*votes));
  *grad_norm = decision.grad_norm;
  *scale = decision.scale;
  *applied = decision.applied;
}

__global__ void add_to(const std::int64_t* added, std::int64_t* count) {
  begin_kernel();
  if (threadIdx.x == 0) *count += *added;
}

/// A warp does what one thread could: launches of less than a warp save nothing.
LaunchShape one_thread() {
  LaunchShape shape;
  shape.threads = warp_lanes;
  return shape;
}

/// Scalars of the step, where they lie.
struct StepScalars {
  const double *lr, *scale;
  const std::int64_t *applied, *updates;  // the last null where the row does not read it

  /// The scalars of a row begin at operand `first`.
  template <class Row>
  static StepScalars of(Tensors operands, std::size_t first) {
    constexpr bool counts = UpdateOperands<Row>::scalars > 3;
    return {operands[first].as<double>(), operands[first + 1].as<double>(),
            operands[first + 2].as<std::int64_t>(),
            counts ? operands[first + 3].as<std::int64_t>() : nullptr};
  }
  __device__ UpdateStep read() const { return {*lr, *scale, updates == nullptr ? 0 : *updates}; }
};

/// One tensor of a list: its elements are updated by blocks [first_block, that of the next tensor).
/// Tensors are of T; the weight is rounded to R, or not where `rounded` is null.
template <class T, class Row, class R>
struct UpdatedTensor {
  const T* grad;
  T* states[UpdateOperands<Row>::states];
  R* rounded;
  std::int64_t count;
  unsigned first_block;
  bool decayed, aligned;
};

constexpr unsigned update_threads = 256;
/// Packs of elements that one block updates.
constexpr std::int64_t packs_per_block = std::int64_t{update_threads} * 4;

/// The update of a step, for tensors that are not decayed and for those that are.
template <class Row>
struct StepUpdates {
  Update<Row, float> of[2];
};

/// A multiple of 16 bytes.
template <class Row>
constexpr std::int64_t step_bytes = 16 * ceil_divide(sizeof(StepUpdates<Row>), 16);

/// Once a step, because powers in double take a GPU without many units for them longer than the
/// update itself. Sets `found` to 0 where it does not go on counting.
template <class Row>
__global__ void prepare_step(Row row, StepScalars step, bool accumulate, StepUpdates<Row>* updates,
                             std::int64_t* found) {
  begin_kernel();
  if (threadIdx.x != 0) return;
  if (!accumulate) *found = 0;
  updates->of[1] = Update<Row, float>(row, step.read());
  row.weight_decay = 0;
  updates->of[0] = Update<Row, float>(row, step.read());
}

/// Stores values, which lie in a pack or in part of one, as R; `whole` says that all are wanted and
/// that they lie aligned together.
template <class R, int size>
__device__ void store_rounded(const float (&values)[size], bool whole, std::int64_t count, R* to) {
  if (!whole) {
    for (int i = 0; i < size; ++i)
      if (i < count) to[i] = from_float<R>(values[i]);
  } else if constexpr (size == pack_size<R>) {
    store_packs<R>(values, WholePack{true}, to);
  } else {
    static_assert(size == 4 && std::is_same_v<R, BFloat16>);
    const std::uint32_t words[2] = {bf16_pair(values[0], values[1]),
                                    bf16_pair(values[2], values[3])};
    store_words(words, to);
  }
}

/// Adds to `found` how many elements are not finite: seldom any, so that nobody waits for it.
template <class T, class Row, class R>
__global__ void update(const __grid_constant__ TensorList<UpdatedTensor<T, Row, R>> list,
                       const std::int64_t* applied, const StepUpdates<Row>* step,
                       std::int64_t* found) {
  begin_kernel();
  if (*applied == 0) return;
  const UpdatedTensor<T, Row, R>& of = entry_of_block(list, blockIdx.x);
  const Update<Row, float> one = step->of[of.decayed ? 1 : 0];
  constexpr int size = pack_size<T>, states = UpdateOperands<Row>::states;
  const std::int64_t packs = (of.count + size - 1) / size;
  const std::int64_t begin =
      static_cast<std::int64_t>(blockIdx.x - of.first_block) * packs_per_block;
  const std::int64_t end = begin + packs_per_block < packs ? begin + packs_per_block : packs;
  unsigned lost = 0;
  for (std::int64_t pack = begin + threadIdx.x; pack < end; pack += update_threads) {
    const std::int64_t first = pack * size, count = of.count - first;
    const bool whole = of.aligned && count >= size;
    float grad[size], state[states][size];
    load_pack<T>(of.grad + first, whole, count, grad);
    for (int s = 0; s < states; ++s) load_pack<T>(of.states[s] + first, whole, count, state[s]);
    for (int i = 0; i < size; ++i) {
      float element[states];
      for (int s = 0; s < states; ++s) element[s] = state[s][i];
      const bool is_finite = update_element(one, grad[i], element, MomentsOf<Row>());
      for (int s = 0; s < states; ++s) state[s][i] = element[s];
      lost += is_finite || i >= count ? 0 : 1;
    }
    for (int s = 0; s < states; ++s) store_pack<T>(state[s], whole, count, of.states[s] + first);
    if (of.rounded != nullptr) store_rounded<R>(state[0], whole, count, of.rounded + first);
  }
  if (lost != 0) atomicAdd(reinterpret_cast<unsigned long long*>(found), lost);
}

/// Collects tensors and launches when no more fit.
template <class T, class Row, class R>
class UpdateLaunches {
 public:
  /// `found` is the row's last operand.
  UpdateLaunches(const Row& row, bool accumulate, const StepScalars& step, std::int64_t* found,
                 Workspace workspace, Stream stream)
      : rounds_(row.rounds),
        applied_(step.applied),
        updates_(reinterpret_cast<StepUpdates<Row>*>(workspace.data())),
        found_(found),
        stream_(stream) {
    launch(prepare_step<Row>, one_thread(), stream, row, step, accumulate, updates_, found);
  }

  /// The tensors that are updated begin at operand `first_state`.
  void add(Tensors operands, std::size_t gradient, std::size_t first_state, bool decayed) {
    if (list_.is_full()) flush();
    const Tensor& grad = operands[gradient];
    const std::int64_t count = grad.elements();
    if (count == 0) return;
    R* const rounded = rounded_of<Row, R>(operands, first_state, rounds_);
    UpdatedTensor<T, Row, R> entry{
        grad.as<T>(), {}, rounded, count, 0, decayed, are_aligned(grad.data, rounded)};
    for (std::size_t i = 0; i < UpdateOperands<Row>::states; ++i) {
      entry.states[i] = operands[first_state + i].as<T>();
      entry.aligned = entry.aligned && are_aligned(entry.states[i]);
    }
    list_.add(entry, ceil_divide(ceil_divide(count, pack_size<T>), packs_per_block));
  }
  void flush() {
    launch(update<T, Row, R>, list_.launch_shape(update_threads), stream_, list_, applied_,
           updates_, found_);
    list_.clear();
  }

 private:
  bool rounds_;
  const std::int64_t* applied_;
  StepUpdates<Row>* updates_;
  std::int64_t* found_;
  Stream stream_;
  TensorList<UpdatedTensor<T, Row, R>> list_;
};

/// make(As<R>{}, As<T>{}): the type of the computation, and that of what an update reads and keeps.
template <class Make>
Enqueue for_update(DType dtype, bool rounds, Make&& make) {
  return for_element(dtype, [&]<class R>(As<R>) -> Enqueue {
    return for_wide<R>(rounds, [&]<class T>(As<T>) -> Enqueue { return make(As<R>{}, As<T>{}); });
  });
}

template <class Row>
Enqueue prepare_update(const Row& op, const Problem& problem) {
  return for_update(problem.dtype, op.rounds, [&]<class R, class T>(As<R>, As<T>) -> Enqueue {
    return [op](Tensors operands, Workspace workspace, Stream stream) {
      UpdateLaunches<T, Row, R> launches(op, op.accumulate, StepScalars::of<Row>(operands, 1),
                                         operands.back().as<std::int64_t>(), workspace, stream);
      launches.add(operands, 0, 1 + UpdateOperands<Row>::scalars, true);
      launches.flush();
    };
  });
}

template <class List>
Enqueue prepare_updates(const List& op, const Problem& problem) {
  using Row = typename List::One;
  return for_update(problem.dtype, op.rounds, [&]<class R, class T>(As<R>, As<T>) -> Enqueue {
    return [op](Tensors operands, Workspace workspace, Stream stream) {
      // -1: with the decay.
      UpdateLaunches<T, Row, R> launches(op.one(-1), op.accumulate,
                                         StepScalars::of<Row>(operands, 0),
                                         operands.back().as<std::int64_t>(), workspace, stream);
      for (std::int64_t i = 0; i < op.count(); ++i) {
        const ListPlaces<Row> places(op.count(), i, op.rounds);
        launches.add(operands, places.gradient, places.first_state, i < op.decayed);
      }
      launches.flush();
    };
  });
}

}  // namespace

Enqueue prepare_row(const op::Vote&, const Problem&) {
  return [](Tensors operands, Workspace, Stream stream) {
    launch(vote, one_thread(), stream,
           VoteOperands{operands[0].as<std::int64_t>(), operands[1].as<double>(),
                        operands[2].as<double>(), operands[3].as<std::int64_t>(),
                        operands[4].as<std::int64_t>(), operands[5].as<double>(),
                        operands[6].as<std::int64_t>()});
  };
}

Enqueue prepare_row(const op::UpdateControl& op, const Problem&) {
  return [op](Tensors operands, Workspace, Stream stream) {
    launch(update_control, one_thread(), stream, op, operands[0].as<double>(),
           operands[1].as<std::int64_t>(), operands[2].as<std::int64_t>(), operands[3].as<double>(),
           operands[4].as<double>(), operands[5].as<std::int64_t>());
  };
}

Enqueue prepare_row(const op::CountUpdate&, const Problem&) {
  return [](Tensors operands, Workspace, Stream stream) {
    launch(add_to, one_thread(), stream, operands[0].as<std::int64_t>(),
           operands[1].as<std::int64_t>());
  };
}

Enqueue prepare_row(const op::CountNonFinite&, const Problem&) {
  return [](Tensors operands, Workspace, Stream stream) {
    launch(add_to, one_thread(), stream, operands[0].as<std::int64_t>(),
           operands[1].as<std::int64_t>());
  };
}

FOURFOLD_OPTIMIZERS(FOURFOLD_PREPARE_UPDATES, Enqueue)

#define FOURFOLD_OPTIMIZER(Row)                                        \
  std::int64_t workspace_bytes(const op::Row&, const Problem&) {       \
    return step_bytes<op::Row>;                                        \
  }                                                                    \
  std::int64_t workspace_bytes(const op::Row##List&, const Problem&) { \
    return step_bytes<op::Row>;                                        \
  }
FOURFOLD_OPTIMIZERS(FOURFOLD_OPTIMIZER)
#undef FOURFOLD_OPTIMIZER

}  // namespace fourfold::kernels::cuda
