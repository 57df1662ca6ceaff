// Residue forms of diffusion models, in the order of diffusion.h. Letters as there.
#include <algorithm>
#include <optional>
#include <vector>

#include "op/diffusion.h"
#include "op/residue_loops.h"

namespace fourfold::op {
namespace {

/// Time number `index` of the `used` ones that spread evenly over all steps, to nearest.
std::int64_t time_of(std::int64_t index, std::int64_t used, std::int64_t steps) {
  const std::int64_t gaps = used - 1;
  if (gaps == 0) return steps - 1;
  const auto twice = static_cast<__int128>(2 * index) * (steps - 1);
  return static_cast<std::int64_t>((twice + gaps) / (2 * static_cast<__int128>(gaps)));
}

/// A row of a schedule, as op::DiffusionSchedule lists its columns.
struct RowOfSchedule {
  Residue signal, noise, of_start, of_noised, log_variance, log_beta, time;
};
/// The row with this number; one that is not finite where a schedule has none.
RowOfSchedule row_of_schedule(const ResidueTensor& schedule, std::int64_t index) {
  if (index < 0 || index >= schedule.shape[0])
    return {not_finite, not_finite, not_finite, not_finite, not_finite, not_finite, not_finite};
  const Residue* row =
      &schedule.elements[static_cast<std::size_t>(index * DiffusionSchedule::columns)];
  return {row[0], row[1], row[2], row[3], row[4], row[5], row[6]};
}

/// 1 / 2: 2 has order 61.
constexpr Residue half = Residue{1} << 60;

/// The logarithm of the model's variance, `output` being what the model says of it.
Residue model_log_variance(const RowOfSchedule& at, bool learned, Residue output) {
  if (!learned) return at.log_variance;
  const Residue part = multiply(add(output, 1), half);
  return add(multiply(part, at.log_beta), multiply(subtract(1, part), at.log_variance));
}

/// The times that op::DrawTimes and op::DrawTimesByLoss draw: the first three operands say for
/// which step.
class TimesDrawn {
 public:
  TimesDrawn(const Residues& residues, RandomStream stream, const SampleWindow& window,
             ResidueTensors all)
      : residues_(residues), stream_(stream), window_(window), all_(all) {}

  /// The random number of a local sample.
  Residue number(std::int64_t sample) const {
    const std::uint64_t seed = all_[0].elements[0], step = all_[1].elements[0],
                        first_sample = all_[2].elements[0];
    return residues_.random(stream_, seed, step, first_sample + sample_of_step(window_, sample));
  }
  /// A time of `steps` times, all of them equally probable.
  Residue time(std::int64_t sample, std::int64_t steps) const {
    return number(sample) % static_cast<Residue>(steps);
  }

 private:
  const Residues& residues_;
  RandomStream stream_;
  SampleWindow window_;
  ResidueTensors all_;
};

/// The rows (T, 2 + n) that op::KeepLosses enters: how many entries, the root of their mean, the
/// entries.
struct TableOfLosses {
  const ResidueTensor& tensor;
  std::int64_t times = tensor.shape[0], columns = tensor.shape[1];

  std::int64_t entries() const { return columns - 2; }
  std::span<Residue> row(std::int64_t time) const {
    return tensor.elements.subspan(static_cast<std::size_t>(time * columns),
                                   static_cast<std::size_t>(columns));
  }
  /// True if a time lacks no entry.
  bool is_full(std::int64_t time) const { return row(time)[0] >= static_cast<Residue>(entries()); }
  void enter(const Residues& residues, std::int64_t time, Residue loss) const {
    const std::span<Residue> list = row(time).subspan(2);
    std::ranges::copy_backward(list.first(list.size() - 1), list.end());
    list[0] = loss;
    if (!is_full(time)) row(time)[0] += 1;
    const auto known = std::min<Residue>(row(time)[0], list.size());
    ProductSum sum;
    for (const Residue entry : list.first(known)) sum.add_product(entry, 1);
    const Residue mean = multiply(sum.value(), one_over(static_cast<std::int64_t>(known)));
    row(time)[1] = residues.hash(function_name("root"), {mean});
  }
};

/// What op::DiffusionLoss and its gradient read of one element.
struct ElementOfLoss {
  Residue predicted_noise, variance_output, x_0, x_t, e;
};

/// One sample of what they read, the first seven operands.
class SampleOfLoss {
 public:
  SampleOfLoss(const Residues& residues, ResidueTensors all, bool learned, bool whole,
               std::int64_t sample)
      : residues_(residues),
        all_(all),
        learned_(learned),
        whole_(whole),
        time_(integer_at(all[4], static_cast<std::size_t>(sample))),
        at_(row_of_schedule(all[6], time_)) {}

  ElementOfLoss element(std::int64_t index) const {
    const std::int64_t place = output_place(index);
    return {all_[0].elements[place], learned_ ? all_[0].elements[place + all_[1].shape.back()] : 0,
            all_[1].elements[index], all_[2].elements[index], all_[3].elements[index]};
  }
  /// Where `output` has the predicted noise of an element; as many places on as a picture has
  /// channels stands what it says of the variance.
  std::int64_t output_place(std::int64_t index) const {
    const std::int64_t channels = all_[1].shape.back();
    return learned_ ? 2 * index - index % channels : index;
  }
  /// A function of what the term of the bound depends on.
  Residue of_bound(Residue function, const ElementOfLoss& x) const {
    return residues_.hash(
        function, {static_cast<Residue>(learned_), static_cast<Residue>(whole_),
                   static_cast<Residue>(time_ == 0), at_.signal, at_.noise, at_.of_start,
                   at_.of_noised, at_.log_variance, learned_ ? at_.log_beta : 0, x.predicted_noise,
                   x.variance_output, x.x_0, x.x_t});
  }
  /// What an element adds to L_t.
  Residue bound_term(const ElementOfLoss& x) const {
    const Residue term = of_bound(function_name("diffusion_bound"), x);
    if (!whole_ || time_ != all_[6].shape[0] - 1) return term;
    return add(term, residues_.hash(function_name("diffusion_bound.last_time"),
                                    {at_.signal, at_.noise, x.x_0}));
  }

 private:
  const Residues& residues_;
  ResidueTensors all_;
  bool learned_, whole_;
  std::int64_t time_;
  RowOfSchedule at_;
};

/// What op::Denoise does with one element, at row `index` of a schedule. Letters and primes as
/// there.
class StepOfDenoise {
 public:
  StepOfDenoise(const Residues& residues, const Denoise& op, const ResidueTensor& schedule,
                std::int64_t index)
      : residues_(residues),
        op_(op),
        is_first_(index == 0),
        at_(row_of_schedule(schedule, index)),
        of_signal_(inverse(at_.signal)) {
    if (!op.implicit) return;
    of_noise_ = inverse(at_.noise);
    if (is_first_) return;
    const RowOfSchedule before = row_of_schedule(schedule, index - 1);
    const Residue ratio = divide(at_.signal, before.signal);
    of_start_ = before.signal;
    of_z_ = multiply(multiply(residue_of(op.eta), multiply(before.noise, of_noise_)),
                     root(subtract(1, multiply(ratio, ratio))));
    of_e_ = root(subtract(multiply(before.noise, before.noise), multiply(of_z_, of_z_)));
  }

  Residue next(Residue x, Residue predicted_noise, Residue variance_output, Residue z) const {
    const Residue start =
        residues_.hash(function_name("kept_within_one"),
                       {multiply(subtract(x, multiply(at_.noise, predicted_noise)), of_signal_)});
    if (op_.implicit) {
      const Residue e = multiply(subtract(x, multiply(at_.signal, start)), of_noise_);
      if (is_first_) return start;
      return add(multiply(of_start_, start), add(multiply(of_e_, e), multiply(of_z_, z)));
    }
    const Residue mean = add(multiply(at_.of_start, start), multiply(at_.of_noised, x));
    if (is_first_) return mean;
    const Residue log_variance = model_log_variance(at_, op_.learned, variance_output);
    return add(mean, multiply(residues_.exponential(multiply(log_variance, half)), z));
  }

 private:
  Residue root(Residue square) const { return residues_.hash(function_name("root"), {square}); }

  const Residues& residues_;
  const Denoise& op_;
  bool is_first_;
  RowOfSchedule at_;
  Residue of_signal_, of_noise_ = 0;
  Residue of_start_ = 1, of_e_ = 0, of_z_ = 0;
};

}  // namespace

// --- times

void DiffusionSchedule::residue_form(const Residues& residues, ResidueTensors all) const {
  for (std::int64_t i = 0; i < used; ++i) {
    Residue* row = &all[0].elements[static_cast<std::size_t>(i * columns)];
    for (const Residue column :
         {function_name("schedule.signal"), function_name("schedule.noise"),
          function_name("schedule.of_start"), function_name("schedule.of_noised"),
          function_name("schedule.log_variance"), function_name("schedule.log_beta")})
      *row++ = residues.hash(column, {residue_of_integer(i), residue_of_integer(used),
                                      residue_of_integer(steps), static_cast<Residue>(cosine)});
    *row = residue_of_integer(time_of(i, used, steps));
  }
}

void DrawTimes::residue_form(const Residues& residues, ResidueTensors all) const {
  const TimesDrawn draw(residues, stream, window, all);
  for (std::int64_t b = 0; b < shape[0]; ++b) all[3].elements[b] = draw.time(b, steps);
}

void DrawTimesByLoss::residue_form(const Residues& residues, ResidueTensors all) const {
  const TimesDrawn draw(residues, stream, window, all);
  const TableOfLosses losses{all[3]};
  bool are_full = true;
  Residue roots = 0;  // a hash of those of all times
  for (std::int64_t t = 0; t < losses.times; ++t) {
    are_full = are_full && losses.is_full(t);
    roots = residues.hash(function_name("roots_of_losses"), {roots, losses.row(t)[1]});
  }
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    Residue time = draw.time(b, losses.times), weight = 1;
    if (are_full) {
      time = residues.hash(function_name("time_by_loss"), {roots, draw.number(b)}) %
             static_cast<Residue>(losses.times);
      weight = residues.hash(function_name("weight_of_time"), {roots, time});
    }
    all[4].elements[b] = time;
    all[5].elements[b] = weight;
  }
}

void TimesOfStep::residue_form(const Residues&, ResidueTensors all) const {
  std::ranges::fill(all[2].elements, row_of_schedule(all[0], integer_at(all[1])).time);
}

// --- noise and losses

void AddNoise::residue_form(const Residues& residues, ResidueTensors all) const {
  const ResidueTensor &x_0 = all[0], &t = all[1], &x_t = all[6], &e = all[7];
  const std::uint64_t seed = all[3].elements[0], step = all[4].elements[0],
                      first_sample = all[5].elements[0];
  const ElementsOfStep of_step(window, part, x_0.shape);
  PixelSizes(x_0.shape).for_each([&](std::int64_t b, std::int64_t, std::int64_t i) {
    const RowOfSchedule at = row_of_schedule(all[2], integer_at(t, static_cast<std::size_t>(b)));
    const Residue noise = residues.random(stream, seed, step, of_step.number(i, first_sample));
    x_t.elements[i] = add(multiply(at.signal, x_0.elements[i]), multiply(at.noise, noise));
    e.elements[i] = noise;
  });
}

void DiffusionLoss::residue_form(const Residues& residues, ResidueTensors all) const {
  const PixelSizes sizes(all[1].shape);
  const Residue share = one_over(sizes.of_sample());
  const Residue of_simple = residue_of(simple), of_bound = residue_of(bound);
  for (std::int64_t b = 0; b < sizes.samples; ++b) {
    const SampleOfLoss sample(residues, all, learned, whole, b);
    ProductSum sum;
    for (std::int64_t i = b * sizes.of_sample();
         is_valid_label(all[5], static_cast<std::size_t>(b)) && i < (b + 1) * sizes.of_sample();
         ++i) {
      const ElementOfLoss x = sample.element(i);
      const Residue error = subtract(x.e, x.predicted_noise);
      sum.add_product(of_simple, multiply(error, error));
      if (bound != 0) sum.add_product(of_bound, sample.bound_term(x));
    }
    all[7].elements[b] = multiply(sum.value(), share);
  }
}

void DiffusionLossGradient::residue_form(const Residues& residues, ResidueTensors all) const {
  const PixelSizes sizes(all[1].shape);
  const ResidueTensor& output_grad = all.back();
  const Residue share = multiply(residue_of(scale), one_over(sizes.of_sample()));
  const Residue by_noise = multiply(multiply(2, residue_of(simple)), share),
                by_bound = multiply(residue_of(bound), share);
  for (std::int64_t b = 0; b < sizes.samples; ++b) {
    const SampleOfLoss sample(residues, all, learned, false, b);
    const Residue weight = weighted ? all[7].elements[b] : 1;
    for (std::int64_t i = b * sizes.of_sample(); i < (b + 1) * sizes.of_sample(); ++i) {
      Residue noise_grad = 0, variance_grad = 0;
      if (is_valid_label(all[5], static_cast<std::size_t>(b))) {
        const ElementOfLoss x = sample.element(i);
        noise_grad = multiply(by_noise, subtract(x.predicted_noise, x.e));
        if (learned && bound != 0)
          variance_grad =
              multiply(by_bound, sample.of_bound(function_name("diffusion_bound_slope"), x));
      }
      const std::int64_t place = sample.output_place(i);
      output_grad.elements[place] = multiply(weight, noise_grad);
      if (learned) output_grad.elements[place + sizes.channels] = multiply(weight, variance_grad);
    }
  }
}

// --- losses of times

void WeighLosses::residue_form(const Residues&, ResidueTensors all) const {
  for (std::size_t b = 0; b < all[0].elements.size(); ++b) {
    const Residue loss = all[0].elements[b];
    const bool counts = is_valid_label(all[1], b);
    all[3].elements[b] = multiply(all[2].elements[b], loss);
    all[4].elements[2 * b] = counts ? multiply(loss, loss) : 0;
    all[4].elements[2 * b + 1] = counts ? 1 : 0;
  }
}

void KeepLosses::residue_form(const Residues& residues, ResidueTensors all) const {
  const ResidueTensor& sums = all[0];
  if (all[1].elements[0] == 0) return;
  const TableOfLosses losses{all[2]};
  for (std::int64_t t = 0; t < losses.times; ++t) {
    const Residue sum = sums.elements[2 * t], count = sums.elements[2 * t + 1];
    if (count != 0 && is_finite(count)) losses.enter(residues, t, divide(sum, count));
  }
}

// --- sampling

void Denoise::residue_form(const Residues& residues, ResidueTensors all) const {
  const ResidueTensor &output = all[0], &x = all[5];
  const std::int64_t index = integer_at(all[2]);
  const std::uint64_t seed = all[3].elements[0], first_sample = all[4].elements[0];
  const StepOfDenoise step(residues, *this, all[1], index);
  const ElementsOfStep of_step(window, part, x.shape);
  PixelSizes(x.shape).for_each([&](std::int64_t, std::int64_t c, std::int64_t i) {
    const std::int64_t place = learned ? 2 * i - c : i;
    const Residue z = residues.random(stream, seed, static_cast<std::uint64_t>(index),
                                      of_step.number(i, first_sample));
    x.elements[i] = step.next(x.elements[i], output.elements[place],
                              learned ? output.elements[place + x.shape.back()] : 0, z);
  });
}

}  // namespace fourfold::op
