// Reference rows of diffusion models; op/diffusion.h says what each computes. Letters as there.
#include <algorithm>

#include "kernels/diffusion.h"
#include "kernels/reference/pixels.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

template <class T>
double read(T value) {
  return static_cast<double>(static_cast<Sum<T>>(value));
}
template <class T>
T rounded(double value) {
  return static_cast<T>(static_cast<Sum<T>>(value));
}

/// body(sample) for each sample with what op::DiffusionLoss reads of it, its label being `valid` or
/// not.
template <class T, class Body>
void for_loss_samples(Tensors operands, const PixelSizes& sizes, bool learned, bool whole,
                      Body body) {
  const auto* schedule = operands[6].as<ScheduleRow>();
  for (std::int64_t b = 0; b < sizes.samples; ++b) {
    const std::int64_t t = operands[4].as<std::int32_t>()[b];
    const LossSample<T> sample{operands[0].as<T>(),
                               operands[1].as<T>(),
                               operands[2].as<T>(),
                               operands[3].as<T>(),
                               b,
                               sizes,
                               learned,
                               whole,
                               t == 0,
                               t == operands[6].shape[0] - 1,
                               schedule[t]};
    body(sample, operands[5].as<std::int32_t>()[b] >= 0);
  }
}

}  // namespace

Run prepare_row(const op::DiffusionSchedule& op, const Problem&) {
  return [op](Tensors operands, Workspace) {
    ScheduleWalk walk(op);
    for (std::int64_t i = 0; i < op.used; ++i) {
      walk.advance();
      operands[0].as<ScheduleRow>()[i] = walk.row();
    }
  };
}

Run prepare_row(const op::DrawTimes& op, const Problem& problem) {
  return [draw = TimeDraw(op), samples = problem.shapes[3][0]](Tensors operands, Workspace) {
    for (std::int64_t b = 0; b < samples; ++b)
      operands[3].as<std::int32_t>()[b] =
          draw.time(*operands[0].as<std::uint64_t>(), *operands[1].as<std::int64_t>(),
                    *operands[2].as<std::int64_t>(), b);
  };
}

Run prepare_row(const op::DrawTimesByLoss& op, const Problem& problem) {
  const std::int64_t times = problem.shapes[3][0], columns = problem.shapes[3][1];
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [draw = TimeDraw(op, times), columns, samples = problem.shapes[4][0]](Tensors operands,
                                                                                 Workspace) {
      using S = Sum<T>;
      const std::uint64_t seed = *operands[0].as<std::uint64_t>();
      const std::int64_t step = *operands[1].as<std::int64_t>(),
                         first = *operands[2].as<std::int64_t>();
      const LossesOfTimes<const S> losses{operands[3].as<S>(), draw.steps, columns};
      bool are_full = true;
      double total = 0;
      for (std::int64_t t = 0; t < losses.times; ++t) {
        are_full = are_full && losses.is_full(t);
        total += losses.importance(t);
      }
      for (std::int64_t b = 0; b < samples; ++b) {
        std::int64_t t = are_full ? 0 : draw.time(seed, step, first, b);
        double weight = 1;
        if (are_full) {
          double left = draw.unit(seed, step, first, b) - losses.probability(0, total);
          while (left >= 0 && t + 1 < losses.times) left -= losses.probability(++t, total);
          weight = 1 / (static_cast<double>(losses.times) * losses.probability(t, total));
        }
        operands[4].as<std::int32_t>()[b] = static_cast<std::int32_t>(t);
        operands[5].as<S>()[b] = static_cast<S>(weight);
      }
    };
  });
}

Run prepare_row(const op::TimesOfStep&, const Problem& problem) {
  return [samples = problem.shapes[2][0]](Tensors operands, Workspace) {
    const double time = operands[0].as<ScheduleRow>()[*operands[1].as<std::int32_t>()].time;
    std::fill_n(operands[2].as<std::int32_t>(), samples, static_cast<std::int32_t>(time));
  };
}

Run prepare_row(const op::AddNoise& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  const StepElements elements = step_elements(op.window, op.part, problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [noise = op.stream, sizes, elements](Tensors operands, Workspace) {
      const T* x_0 = operands[0].as<T>();
      const auto* schedule = operands[2].as<ScheduleRow>();
      const Random random(*operands[3].as<std::uint64_t>(), noise);
      const auto step = static_cast<std::uint32_t>(*operands[4].as<std::int64_t>());
      const std::uint64_t first =
          static_cast<std::uint64_t>(*operands[5].as<std::int64_t>()) * elements.of_sample;
      for_elements(sizes, [&](std::int64_t b, std::int64_t, std::int64_t i) {
        const ScheduleRow& at = schedule[operands[1].as<std::int32_t>()[b]];
        const T e = rounded<T>(standard_normal(random, first + elements.at(i), step));
        operands[6].as<T>()[i] = rounded<T>(at.signal * read(x_0[i]) + at.noise * read(e));
        operands[7].as<T>()[i] = e;
      });
    };
  });
}

Run prepare_row(const op::DiffusionLoss& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[1]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes](Tensors operands, Workspace) {
      const auto take = [&](const LossSample<T>& sample, bool is_valid) {
        double sum = 0;
        for (std::int64_t i = 0; is_valid && i < sample.elements(); ++i)
          sum += sample.loss(i, op.simple, op.bound, read<T>);
        operands[7].as<Sum<T>>()[sample.sample] =
            static_cast<Sum<T>>(sum / static_cast<double>(sample.elements()));
      };
      for_loss_samples<T>(operands, sizes, op.learned, op.whole, take);
    };
  });
}

Run prepare_row(const op::DiffusionLossGradient& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[1]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes](Tensors operands, Workspace) {
      T* output_grad = operands[op.weighted ? 8 : 7].as<T>();
      const auto take = [&](const LossSample<T>& sample, bool is_valid) {
        const double weight =
            op.weighted ? static_cast<double>(operands[7].as<Sum<T>>()[sample.sample]) : 1;
        for (std::int64_t i = 0; i < sample.elements(); ++i) {
          const auto [by_noise, by_variance] = sample.gradient(i, op, is_valid, read<T>);
          const std::int64_t place = sample.output_place(i);
          output_grad[place] = rounded<T>(weight * by_noise);
          if (op.learned) output_grad[place + sizes.channels] = rounded<T>(weight * by_variance);
        }
      };
      for_loss_samples<T>(operands, sizes, op.learned, false, take);
    };
  });
}

Run prepare_row(const op::WeighLosses&, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [samples = problem.shapes[0][0]](Tensors operands, Workspace) {
      using S = Sum<T>;
      for (std::int64_t b = 0; b < samples; ++b) {
        const S loss = operands[0].as<S>()[b];
        const bool is_valid = operands[1].as<std::int32_t>()[b] >= 0;
        operands[4].as<S>()[2 * b] = is_valid ? loss * loss : 0;
        operands[4].as<S>()[2 * b + 1] = is_valid ? 1 : 0;
        operands[3].as<S>()[b] = operands[2].as<S>()[b] * loss;
      }
    };
  });
}

Run prepare_row(const op::KeepLosses&, const Problem& problem) {
  const std::int64_t times = problem.shapes[2][0], columns = problem.shapes[2][1];
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [times, columns](Tensors operands, Workspace) {
      using S = Sum<T>;
      if (*operands[1].as<std::int64_t>() == 0) return;
      const S* sums = operands[0].as<S>();
      const LossesOfTimes<S> losses{operands[2].as<S>(), times, columns};
      for (std::int64_t t = 0; t < times; ++t)
        if (sums[2 * t + 1] > 0)
          losses.enter(t, static_cast<double>(sums[2 * t]), static_cast<double>(sums[2 * t + 1]));
    };
  });
}

Run prepare_row(const op::Denoise& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[5]);
  const StepElements elements = step_elements(op.window, op.part, problem.shapes[5]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [denoise = DenoiseStep(op), noise = op.stream, sizes, elements](Tensors operands,
                                                                           Workspace) {
      const std::int32_t index = *operands[2].as<std::int32_t>();
      const Random random(*operands[3].as<std::uint64_t>(), noise);
      const T* output = operands[0].as<T>();
      const std::uint64_t first =
          static_cast<std::uint64_t>(*operands[4].as<std::int64_t>()) * elements.of_sample;
      T* x = operands[5].as<T>();
      for_elements(sizes, [&](std::int64_t, std::int64_t c, std::int64_t i) {
        const std::int64_t place = denoise.learned ? 2 * i - c : i;
        const double z =
            standard_normal(random, first + elements.at(i), static_cast<std::uint32_t>(index));
        x[i] = rounded<T>(denoise.next(
            operands[1].as<ScheduleRow>() + index, index == 0, read(x[i]), read(output[place]),
            denoise.learned ? read(output[place + sizes.channels]) : 0, z));
      });
    };
  });
}

}  // namespace fourfold::kernels::reference
