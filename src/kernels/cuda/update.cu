// The votes and the decision about an update, AdamW, and Adam's counter on the device; op::Vote ...
// op::CountUpdate state the contracts. All scalars are read and written where they lie, by kernels.
#include <algorithm>
#include <vector>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/tensor_list.cuh"
#include "kernels/update_decision.h"

namespace fourfold::kernels::cuda {
namespace {

struct VoteOperands {
  const std::int64_t* own;
  const double *squared_norm, *loss_sum;
  const std::int64_t *token_count, *non_finite;
  const double* lr;
  std::int64_t* votes;
};

__global__ void vote(VoteOperands of) {
  if (threadIdx.x != 0) return;
  const bool fit = is_fit(*of.squared_norm, *of.loss_sum, *of.token_count, *of.non_finite, *of.lr);
  *of.votes = *of.own + op::Votes{.against = fit ? 0 : 1}.packed();
}

__global__ void update_control(op::UpdateControl row, const double* squared_norm,
                               const std::int64_t* token_count, const std::int64_t* votes,
                               double* grad_norm, double* scale, std::int64_t* applied) {
  if (threadIdx.x != 0) return;
  const UpdateDecision decision =
      decide_update(row, *squared_norm, *token_count, op::Votes::of(*votes));
  *grad_norm = decision.grad_norm;
  *scale = decision.scale;
  *applied = decision.applied;
}

__global__ void count_update(const std::int64_t* applied, std::int64_t* updates) {
  if (threadIdx.x == 0) *updates += *applied;
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
  const std::int64_t *applied, *updates;
};

/// One tensor of a list: its elements are updated by blocks [first_block, that of the next tensor).
template <class T>
struct UpdatedTensor {
  const T* grad;
  T *weight, *m, *v;
  std::int64_t count;
  unsigned first_block;
  bool decayed, aligned;
};

constexpr unsigned update_threads = 256;
/// Packs of elements that one block updates.
constexpr std::int64_t packs_per_block = std::int64_t{update_threads} * 4;

/// AdamWScalars in the type that kernels compute in.
struct AdamWFactors {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float keep, step_size, inverse_root, epsilon;

  __device__ explicit AdamWFactors(const AdamWScalars& of)
      : gradient_scale(static_cast<float>(of.gradient_scale)),
        beta1(static_cast<float>(of.beta1)),
        one_minus_beta1(static_cast<float>(of.one_minus_beta1)),
        beta2(static_cast<float>(of.beta2)),
        one_minus_beta2(static_cast<float>(of.one_minus_beta2)),
        keep(static_cast<float>(of.keep)),
        step_size(static_cast<float>(of.step_size)),
        inverse_root(static_cast<float>(of.inverse_root)),
        epsilon(static_cast<float>(of.epsilon)) {}

  __device__ void update(float grad, float& weight, float& m, float& v) const {
    const float g = gradient_scale * grad;
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    weight = keep * weight - step_size * m / (sqrtf(v) * inverse_root + epsilon);
  }
};

template <class T>
__global__ void adamw(const __grid_constant__ TensorList<UpdatedTensor<T>> list, op::AdamW row,
                      StepScalars step) {
  if (*step.applied == 0) return;
  const UpdatedTensor<T>& of = entry_of_block(list, blockIdx.x);
  // By every thread: powers in double take less time than a barrier would.
  op::AdamW own = row;
  if (!of.decayed) own.weight_decay = 0;
  const AdamWFactors factors(adamw_scalars(own, *step.lr, *step.scale, *step.updates));
  constexpr int size = pack_size<T>;
  const std::int64_t packs = (of.count + size - 1) / size;
  const std::int64_t begin =
      static_cast<std::int64_t>(blockIdx.x - of.first_block) * packs_per_block;
  const std::int64_t end = begin + packs_per_block < packs ? begin + packs_per_block : packs;
  for (std::int64_t pack = begin + threadIdx.x; pack < end; pack += update_threads) {
    const std::int64_t first = pack * size, count = of.count - first;
    const bool whole = of.aligned && count >= size;
    float grad[size], weight[size], m[size], v[size];
    load_pack<T>(of.grad + first, whole, count, grad);
    load_pack<T>(of.weight + first, whole, count, weight);
    load_pack<T>(of.m + first, whole, count, m);
    load_pack<T>(of.v + first, whole, count, v);
    for (int i = 0; i < size; ++i) factors.update(grad[i], weight[i], m[i], v[i]);
    store_pack<T>(weight, whole, count, of.weight + first);
    store_pack<T>(m, whole, count, of.m + first);
    store_pack<T>(v, whole, count, of.v + first);
  }
}

/// Collects tensors and launches when no more fit.
template <class T>
class AdamWLaunches {
 public:
  AdamWLaunches(const op::AdamW& row, const StepScalars& step, Stream stream)
      : row_(row), step_(step), stream_(stream) {}

  void add(const Tensor& grad, T* weight, T* m, T* v, bool decayed) {
    if (list_.is_full()) flush();
    const std::int64_t count = grad.elements();
    if (count == 0) return;
    list_.add({grad.as<T>(), weight, m, v, count, 0, decayed, are_aligned(grad.data, weight, m, v)},
              ceil_divide(ceil_divide(count, pack_size<T>), packs_per_block));
  }
  void flush() {
    launch(adamw<T>, list_.launch_shape(update_threads), stream_, list_, row_, step_);
    list_.clear();
  }

 private:
  op::AdamW row_;
  StepScalars step_;
  Stream stream_;
  TensorList<UpdatedTensor<T>> list_;
};

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
    launch(count_update, one_thread(), stream, operands[0].as<std::int64_t>(),
           operands[1].as<std::int64_t>());
  };
}

Enqueue prepare_row(const op::AdamW& op, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [op](Tensors operands, Workspace, Stream stream) {
      AdamWLaunches<T> launches(op,
                                {operands[1].as<double>(), operands[2].as<double>(),
                                 operands[3].as<std::int64_t>(), operands[4].as<std::int64_t>()},
                                stream);
      launches.add(operands[0], operands[5].as<T>(), operands[6].as<T>(), operands[7].as<T>(),
                   true);
      launches.flush();
    };
  });
}

Enqueue prepare_row(const op::AdamWList& op, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [op, row = op::AdamW{op.beta1, op.beta2, op.epsilon, op.weight_decay}](
               Tensors operands, Workspace, Stream stream) {
      AdamWLaunches<T> launches(row,
                                {operands[0].as<double>(), operands[1].as<double>(),
                                 operands[2].as<std::int64_t>(), operands[3].as<std::int64_t>()},
                                stream);
      const auto count = static_cast<std::size_t>(op.count());
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t state = 4 + count + 3 * i;
        launches.add(operands[4 + i], operands[state].as<T>(), operands[state + 1].as<T>(),
                     operands[state + 2].as<T>(), static_cast<std::int64_t>(i) < op.decayed);
      }
      launches.flush();
    };
  });
}

}  // namespace fourfold::kernels::cuda
