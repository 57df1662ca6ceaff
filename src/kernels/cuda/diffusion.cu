// Rows of diffusion models on the device; op/diffusion.h says what each computes. Letters as there.
#include "kernels/cuda/pixels.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/diffusion.h"

namespace fourfold::kernels::cuda {
namespace {

struct ReadElement {
  template <class T>
  FOURFOLD_CUDA double operator()(T value) const {
    return static_cast<double>(to_float(value));
  }
};

template <class T>
__device__ T rounded(double value) {
  return from_float<T>(static_cast<float>(value));
}

// A thread for each row: walking to its own is cheap, waiting for the one before is not.
__global__ void make_schedule(op::DiffusionSchedule op, ScheduleRow* schedule) {
  begin_kernel();
  for_own_elements(op.used, [&](std::int64_t index) {
    ScheduleWalk walk(op);
    for (std::int64_t i = 0; i <= index; ++i) walk.advance();
    schedule[index] = walk.row();
  });
}

/// op::DrawTimes without what a kernel has no use for.
__global__ void draw_times(TimeDraw op, std::int64_t samples, const std::uint64_t* seed,
                           const std::int64_t* step, const std::int64_t* first_sample,
                           std::int32_t* t_B) {
  begin_kernel();
  for_own_elements(samples,
                   [&](std::int64_t b) { t_B[b] = op.time(*seed, *step, *first_sample, b); });
}

constexpr int draw_warps = 8;
constexpr unsigned draw_threads = draw_warps * warp_lanes;

/// A block for each sample. Each thread sums the probabilities of a stretch of times; then the
/// first thread finds the stretch in which the number drawn lies, and walks along it.
__global__ void draw_times_by_loss(TimeDraw op, LossesOfTimes<const float> losses,
                                   const std::uint64_t* seed, const std::int64_t* step,
                                   const std::int64_t* first_sample, std::int32_t* t_B,
                                   float* weights_B) {
  begin_kernel();
  __shared__ double shared[draw_warps], sums[draw_threads];
  const std::int64_t b = blockIdx.x, stretch = (losses.times + draw_threads - 1) / draw_threads;
  const std::int64_t begin = threadIdx.x * stretch;
  const std::int64_t end = begin + stretch < losses.times ? begin + stretch : losses.times;
  double total = 0, lacking = 0, own = 0;
  for (std::int64_t t = begin; t < end; ++t) {
    total += losses.importance(t);
    lacking += losses.is_full(t) ? 0 : 1;
  }
  total = block_sum<draw_warps>(total, shared);
  lacking = block_sum<draw_warps>(lacking, shared);
  for (std::int64_t t = begin; t < end; ++t) own += losses.probability(t, total);
  sums[threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  std::int64_t t = 0;
  double weight = 1;
  if (lacking > 0) {
    t = op.time(*seed, *step, *first_sample, b);
  } else {
    double left = op.unit(*seed, *step, *first_sample, b);
    for (unsigned thread = 0; t + stretch < losses.times && left >= sums[thread]; ++thread) {
      left -= sums[thread];
      t += stretch;
    }
    left -= losses.probability(t, total);
    while (left >= 0 && t + 1 < losses.times) left -= losses.probability(++t, total);
    weight = 1 / (static_cast<double>(losses.times) * losses.probability(t, total));
  }
  t_B[b] = static_cast<std::int32_t>(t);
  weights_B[b] = static_cast<float>(weight);
}

__global__ void times_of_step(const ScheduleRow* schedule, const std::int32_t* index,
                              std::int64_t samples, std::int32_t* t_B) {
  begin_kernel();
  for_own_elements(
      samples, [&](std::int64_t b) { t_B[b] = static_cast<std::int32_t>(schedule[*index].time); });
}

struct NoiseOperands {
  const std::int32_t* t_B;
  const ScheduleRow* schedule;
  const std::uint64_t* seed;
  const std::int64_t *step, *first_sample;
};

template <class T>
__global__ void add_noise(RandomStream stream, StepElements elements, PixelSizes sizes,
                          NoiseOperands of, const T* x_0, T* x_t, T* e) {
  begin_kernel();
  const Random random(*of.seed, stream);
  const auto step = static_cast<std::uint32_t>(*of.step);
  const std::uint64_t first = static_cast<std::uint64_t>(*of.first_sample) * elements.of_sample;
  for_own_elements(sizes.elements(), [&](std::int64_t i) {
    const ScheduleRow& at = of.schedule[of.t_B[sizes.sample_of(i)]];
    const T noise = rounded<T>(standard_normal(random, first + elements.at(i), step));
    const double start = ReadElement{}(x_0[i]);
    x_t[i] = rounded<T>(at.signal * start + at.noise * ReadElement{}(noise));
    e[i] = noise;
  });
}

/// What op::DiffusionLoss and its gradient read.
template <class T>
struct LossOperands {
  const T *output, *x_0, *x_t, *e;
  const std::int32_t *t_B, *labels_B;
  const ScheduleRow* schedule;
  std::int64_t last;
  PixelSizes sizes;
  bool learned, whole;

  LossOperands(Tensors operands, const PixelSizes& of, bool is_learned, bool is_whole)
      : output(operands[0].as<T>()),
        x_0(operands[1].as<T>()),
        x_t(operands[2].as<T>()),
        e(operands[3].as<T>()),
        t_B(operands[4].as<std::int32_t>()),
        labels_B(operands[5].as<std::int32_t>()),
        schedule(operands[6].as<ScheduleRow>()),
        last(operands[6].shape[0] - 1),
        sizes(of),
        learned(is_learned),
        whole(is_whole) {}

  __device__ LossSample<T> sample(std::int64_t b) const {
    const std::int64_t t = t_B[b];
    return {output, x_0, x_t, e, b, sizes, learned, whole, t == 0, t == last, schedule[t]};
  }
};

constexpr int loss_warps = 8;
constexpr unsigned loss_threads = loss_warps * warp_lanes;

/// A block for each sample.
template <class T>
__global__ void sum_loss(LossOperands<T> of, double simple, double bound, float* sample_loss_B) {
  begin_kernel();
  __shared__ double shared[loss_warps];
  const LossSample<T> sample = of.sample(blockIdx.x);
  double sum = 0;
  if (of.labels_B[blockIdx.x] >= 0)
    for (std::int64_t i = threadIdx.x; i < sample.elements(); i += loss_threads)
      sum += sample.loss(i, simple, bound, ReadElement{});
  sum = block_sum<loss_warps>(sum, shared);
  if (threadIdx.x == 0)
    sample_loss_B[blockIdx.x] = static_cast<float>(sum / static_cast<double>(sample.elements()));
}

template <class T>
__global__ void loss_gradient(LossOperands<T> of, op::DiffusionLossGradient op,
                              const float* weights_B, T* output_grad) {
  begin_kernel();
  for_own_elements(of.sizes.elements(), [&](std::int64_t element) {
    const LossSample<T> sample = of.sample(of.sizes.sample_of(element));
    const std::int64_t i = element % sample.elements();
    const auto gradient = sample.gradient(i, op, of.labels_B[sample.sample] >= 0, ReadElement{});
    const std::int64_t place = sample.output_place(i);
    const double weight = op.weighted ? static_cast<double>(weights_B[sample.sample]) : 1;
    output_grad[place] = rounded<T>(weight * gradient.by_noise);
    if (op.learned)
      output_grad[place + of.sizes.channels] = rounded<T>(weight * gradient.by_variance);
  });
}

__global__ void weigh_losses(std::int64_t samples, const float* sample_loss_B,
                             const std::int32_t* labels_B, const float* weights_B,
                             float* weighted_B, float* terms_B2) {
  begin_kernel();
  for_own_elements(samples, [&](std::int64_t b) {
    const float loss = sample_loss_B[b];
    const bool is_valid = labels_B[b] >= 0;
    terms_B2[2 * b] = is_valid ? loss * loss : 0;
    terms_B2[2 * b + 1] = is_valid ? 1 : 0;
    weighted_B[b] = weights_B[b] * loss;
  });
}

__global__ void keep_losses(const float* sums, const std::int64_t* applied,
                            LossesOfTimes<float> losses) {
  begin_kernel();
  if (*applied == 0) return;
  for_own_elements(losses.times, [&](std::int64_t t) {
    if (sums[2 * t + 1] > 0) losses.enter(t, sums[2 * t], sums[2 * t + 1]);
  });
}

template <class T>
__global__ void denoise(DenoiseStep op, RandomStream stream, StepElements elements,
                        PixelSizes sizes, const T* output, const ScheduleRow* schedule,
                        const std::int32_t* index, const std::uint64_t* seed,
                        const std::int64_t* first_sample, T* x) {
  begin_kernel();
  const Random random(*seed, stream);
  const std::int32_t at = *index;
  const std::uint64_t first = static_cast<std::uint64_t>(*first_sample) * elements.of_sample;
  for_own_elements(sizes.elements(), [&](std::int64_t i) {
    const std::int64_t place = op.learned ? 2 * i - i % sizes.channels : i;
    const double z =
        standard_normal(random, first + elements.at(i), static_cast<std::uint32_t>(at));
    const ReadElement read;
    x[i] = rounded<T>(op.next(schedule + at, at == 0, read(x[i]), read(output[place]),
                              op.learned ? read(output[place + sizes.channels]) : 0, z));
  });
}

LaunchShape of_elements(std::int64_t count) {
  return stepping_launch(count, map_threads, map_threads);
}

}  // namespace

Enqueue prepare_row(const op::DiffusionSchedule& op, const Problem&) {
  return [op](Tensors operands, Workspace, Stream stream) {
    launch(make_schedule, of_elements(op.used), stream, op, operands[0].as<ScheduleRow>());
  };
}

Enqueue prepare_row(const op::DrawTimes& op, const Problem& problem) {
  return [draw = TimeDraw(op), samples = problem.shapes[3][0]](Tensors operands, Workspace,
                                                               Stream stream) {
    launch(draw_times, of_elements(samples), stream, draw, samples, operands[0].as<std::uint64_t>(),
           operands[1].as<std::int64_t>(), operands[2].as<std::int64_t>(),
           operands[3].as<std::int32_t>());
  };
}

Enqueue prepare_row(const op::DrawTimesByLoss& op, const Problem& problem) {
  const std::int64_t times = problem.shapes[3][0], columns = problem.shapes[3][1];
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(problem.shapes[4][0]);
  shape.threads = draw_threads;
  return [=, draw = TimeDraw(op, times)](Tensors operands, Workspace, Stream stream) {
    launch(draw_times_by_loss, shape, stream, draw,
           LossesOfTimes<const float>{operands[3].as<float>(), times, columns},
           operands[0].as<std::uint64_t>(), operands[1].as<std::int64_t>(),
           operands[2].as<std::int64_t>(), operands[4].as<std::int32_t>(), operands[5].as<float>());
  };
}

Enqueue prepare_row(const op::TimesOfStep&, const Problem& problem) {
  return [samples = problem.shapes[2][0]](Tensors operands, Workspace, Stream stream) {
    launch(times_of_step, of_elements(samples), stream, operands[0].as<ScheduleRow>(),
           operands[1].as<std::int32_t>(), samples, operands[2].as<std::int32_t>());
  };
}

Enqueue prepare_row(const op::AddNoise& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  const StepElements elements = step_elements(op.window, op.part, problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, noise = op.stream](Tensors operands, Workspace, Stream stream) {
      const NoiseOperands of{operands[1].as<std::int32_t>(), operands[2].as<ScheduleRow>(),
                             operands[3].as<std::uint64_t>(), operands[4].as<std::int64_t>(),
                             operands[5].as<std::int64_t>()};
      launch(add_noise<T>, of_elements(sizes.elements()), stream, noise, elements, sizes, of,
             operands[0].as<T>(), operands[6].as<T>(), operands[7].as<T>());
    };
  });
}

Enqueue prepare_row(const op::DiffusionLoss& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[1]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [op, sizes](Tensors operands, Workspace, Stream stream) {
      LaunchShape shape;
      shape.blocks_x = static_cast<unsigned>(sizes.samples);
      shape.threads = loss_threads;
      launch(sum_loss<T>, shape, stream, LossOperands<T>(operands, sizes, op.learned, op.whole),
             op.simple, op.bound, operands[7].as<float>());
    };
  });
}

Enqueue prepare_row(const op::DiffusionLossGradient& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[1]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [op, sizes](Tensors operands, Workspace, Stream stream) {
      launch(loss_gradient<T>, of_elements(sizes.elements()), stream,
             LossOperands<T>(operands, sizes, op.learned, false), op,
             op.weighted ? operands[7].as<float>() : nullptr,
             operands[op.weighted ? 8 : 7].as<T>());
    };
  });
}

Enqueue prepare_row(const op::WeighLosses&, const Problem& problem) {
  return [samples = problem.shapes[0][0]](Tensors operands, Workspace, Stream stream) {
    launch(weigh_losses, of_elements(samples), stream, samples, operands[0].as<float>(),
           operands[1].as<std::int32_t>(), operands[2].as<float>(), operands[3].as<float>(),
           operands[4].as<float>());
  };
}

Enqueue prepare_row(const op::KeepLosses&, const Problem& problem) {
  const std::int64_t times = problem.shapes[2][0], columns = problem.shapes[2][1];
  return [=](Tensors operands, Workspace, Stream stream) {
    launch(keep_losses, of_elements(times), stream, operands[0].as<float>(),
           operands[1].as<std::int64_t>(),
           LossesOfTimes<float>{operands[2].as<float>(), times, columns});
  };
}

Enqueue prepare_row(const op::Denoise& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[5]);
  const StepElements elements = step_elements(op.window, op.part, problem.shapes[5]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, step = DenoiseStep(op), noise = op.stream](Tensors operands, Workspace,
                                                          Stream stream) {
      launch(denoise<T>, of_elements(sizes.elements()), stream, step, noise, elements, sizes,
             operands[0].as<T>(), operands[1].as<ScheduleRow>(), operands[2].as<std::int32_t>(),
             operands[3].as<std::uint64_t>(), operands[4].as<std::int64_t>(), operands[5].as<T>());
    };
  });
}

}  // namespace fourfold::kernels::cuda
