// Rows of diffusion models: Ho, Jain, Abbeel 2020 (arXiv:2006.11239), with the cosine schedule, the
// learned variance and the hybrid loss of Nichol, Dhariwal 2021 (arXiv:2102.09672), and the
// sampling of Song, Meng, Ermon 2021 (arXiv:2010.02502, DDIM). Times count from 0, at which a
// picture has the least noise.
//
// T times of the schedule, S of them used, B samples, n kept losses of a time, "..." the pixels of
// a sample (any dims), C channels of a picture. What a model gives, `output`, has C channels, the
// predicted noise, or 2 C, of which the second half says where the logarithm of the variance lies.
#pragma once

#include "op/ops.h"

namespace fourfold::op {

/// schedule (S, 7) in double, a row for each used time, by columns:
///   signal        sqrt(abar), abar the product of 1 - beta up to this time
///   noise         sqrt(1 - abar)
///   of_start      the coefficients of x_0 and of x_t in the mean of q(x_{t-1} | x_t, x_0)
///   of_noised     (2020, eq. 7)
///   log_variance  the logarithm of that distribution's variance; at the first time that of the
///                 second one, as it is 0 there
///   log_beta      log beta
///   time          0 ... T - 1
/// linear: beta rises evenly from 0.1 / T to 20 / T (2020, section 4, for T = 1000); `cosine`: abar
/// = f(t) / f(0), f(t) = cos^2((t / T + 0.008) / 1.008 pi / 2), beta at most 0.999 (2021, eq. 17).
/// S times are spread evenly from the first to the last; beta is then that of the steps between
/// them (2021, eq. 19). Requires 1 <= used <= steps.
struct DiffusionSchedule {
  static constexpr std::int64_t columns = 7;
  std::int64_t steps = 1000, used = 1000;
  bool cosine = false;
  FOURFOLD_OP_ROW(DiffusionSchedule, "diffusion_schedule", steps, used, cosine);
};

/// t (B): of sample s of the step uniform among the times, from Philox(seed, stream; element
/// first_sample + s, step), seed, step and first_sample being scalar operands. `shape` is the local
/// one, `window` says which samples these are.
struct DrawTimes {
  RandomStream stream;
  std::int64_t steps = 1;
  SampleWindow window;
  Shape shape;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::samples, "window", 3}, self.window);
    visit({Told::local_shape, "shape", 3}, self.shape);
  }
  FOURFOLD_OP_ROW(DrawTimes, "draw_times", stream, steps, window, shape);
};

/// t (B) as op::DrawTimes, but by importance (2021, section 3.3): with probability p(t) = u / T +
/// (1 - u) w(t) / sum of w, u = 0.001, w(t) the root of the mean squared loss that `losses` keeps
/// of time t (op::KeepLosses). weights (B) = 1 / (T p(t)): with it a sample's loss estimates the
/// mean over all times. As long as a time lacks an entry, exactly as op::DrawTimes, and weights
/// are 1.
struct DrawTimesByLoss {
  RandomStream stream;
  SampleWindow window;
  Shape shape;
  static constexpr double even_share = 0.001;  // u
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::samples, "window", 4}, self.window);
    visit({Told::local_shape, "shape", 4}, self.shape);
  }
  FOURFOLD_OP_ROW(DrawTimesByLoss, "draw_times_by_loss", stream, window, shape);
  std::int64_t integer_bound(Shapes all) const;
};

/// t (B) = the time of row `index`, a scalar operand, of a schedule (S, 7), for all samples.
/// `shape` is the local one.
struct TimesOfStep {
  Shape shape;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::local_shape, "shape", 2}, self.shape);
  }
  FOURFOLD_OP_ROW(TimesOfStep, "times_of_step", shape);
  std::int64_t integer_bound(Shapes all) const;
};

/// x_t = signal x_0 + noise e at the time of each sample (2020, eq. 4), e standard normal: element
/// i, counted over (first_sample + sample, the other dims), is Random(seed, stream).normal(i,
/// step). Also gives e. `window` and `part` say which elements these are, as for op::Dropout.
struct AddNoise {
  RandomStream stream;
  SampleWindow window;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::samples, "window", 0}, self.window);
    visit({Told::window, "part", 0, 1}, self.part);
  }
  FOURFOLD_OP_ROW(AddNoise, "add_noise", stream, window, part);
  std::int64_t integer_bound(Shapes all) const;
};

/// sample_loss (B) = simple mean((e - predicted e)^2) + bound L_t, 0 where the sample's label is
/// -1: the means are over all elements of a sample. L_t is the term of the variational bound, in
/// bits for each element (2020, eqs 5 and 13): the divergence of the model's step from the true
/// one, at the first time minus the logarithm of the probability of x_0 in 256 levels from -1 to 1.
/// With `learned` the logarithm of the model's variance is v log beta + (1 - v) log_variance, v =
/// (output + 1) / 2 (2021, eq. 15), and the bound has no gradient by the mean (2021, section 3.2);
/// otherwise it is log_variance. With `whole` the start that the model predicts is kept within -1
/// to 1, and the last time also counts what x_T tells of x_0: the terms of all times then add up to
/// the bound.
struct DiffusionLoss {
  bool learned = false, whole = false;
  double simple = 1, bound = 0;
  FOURFOLD_OP_ROW(DiffusionLoss, "diffusion_loss", learned, whole, simple, bound);
  std::int64_t integer_bound(Shapes all) const;
};

/// output_grad = scale times the gradient of op::DiffusionLoss without `whole`; where `weighted`
/// also times the weight of the sample, weights (B) being an operand more.
struct DiffusionLossGradient {
  bool learned = false, weighted = false;
  double simple = 1, bound = 0, scale = 1;
  FOURFOLD_OP_ROW(DiffusionLossGradient, "diffusion_loss_gradient", learned, weighted, simple,
                  bound, scale);
  std::int64_t integer_bound(Shapes all) const;
};

/// weighted (B) = weights sample_loss. terms (B, 2) = sample_loss^2 and 1, or 0 and 0 where the
/// sample's label is -1: what op::KeepLosses wants, summed over the samples of each time.
struct WeighLosses {
  FOURFOLD_OP_ROW(WeighLosses, "weigh_losses");
};

/// Enters the losses of a step, where applied = 1. sums (T, 2) has for each time the sum of the
/// squared losses of its samples and their number; of a time that has samples, the mean is entered.
/// losses (T, 2 + n), by columns: how many of n entries there are, the root of their mean, the
/// entries, the newest first. Improved diffusion enters samples of one step one by one, which
/// differs where a step has several samples of a time.
struct KeepLosses {
  static constexpr std::int64_t entries = 10;  // n (2021, section 3.3)
  FOURFOLD_OP_ROW(KeepLosses, "keep_losses");
};

/// x, at the time of row `index` of a schedule, becomes x at the time of the row before it, from
/// the noise that the model predicts. The predicted start x_0 = (x - noise e) / signal is kept
/// within -1 to 1.
///   ancestral: x = of_start x_0 + of_noised x + exp(log variance / 2) z, the variance as in
///     op::DiffusionLoss (2020, algorithm 2);
///   `implicit`: x = signal' x_0 + sqrt(noise'^2 - d^2) e + d z, e being what x_0 leaves of x,
///     d = eta noise' / noise sqrt(1 - (signal / signal')^2), primes at the row before (DDIM, eqs
///     12 and 16).
/// z is standard normal, 0 at the first row: element i, counted over (sample, the other dims), is
/// Random(seed, stream).normal(i, index), the scalar operand first_sample being the number of the
/// first sample. `window` and `part` as for op::Dropout.
struct Denoise {
  RandomStream stream;
  bool learned = false, implicit = false;
  double eta = 0;
  SampleWindow window;
  TensorWindow part = {};
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::samples, "window", 5}, self.window);
    visit({Told::window, "part", 5, 1}, self.part);
  }
  FOURFOLD_OP_ROW(Denoise, "denoise_step", stream, learned, implicit, eta, window, part);
  std::int64_t integer_bound(Shapes all) const;
};

/// FOURFOLD_DIFFUSION_ROWS(ROW) is ROW(Type, class of its work) for each of the rows above.
#define FOURFOLD_DIFFUSION_ROWS(ROW)      \
  ROW(DiffusionSchedule, source)          \
  ROW(DrawTimes, source)                  \
  ROW(DrawTimesByLoss, source)            \
  ROW(TimesOfStep, look_up)               \
  ROW(AddNoise, elementwise)              \
  ROW(DiffusionLoss, reduction)           \
  ROW(DiffusionLossGradient, elementwise) \
  ROW(WeighLosses, elementwise)           \
  ROW(KeepLosses, elementwise)            \
  ROW(Denoise, elementwise)

}  // namespace fourfold::op
