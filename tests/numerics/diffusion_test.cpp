// What rows of diffusion models give, against formulas written out here and by what one of them
// does to the other. That all backends agree is tested on the rows' examples.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/format.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

constexpr std::size_t columns = op::DiffusionSchedule::columns;
enum Column : std::uint8_t { signal, noise, of_start, of_noised, log_variance, log_beta, time };

Array schedule_of(const op::DiffusionSchedule& op) {
  return apply(op, exact, {}).values[0];
}
double at(const Array& schedule, std::size_t row, Column column) {
  return schedule.data[row * columns + column];
}

void expect_near(double got, double expected, double relative = 1e-12) {
  EXPECT_NEAR(got, expected, relative * std::abs(expected));
}

TEST(DiffusionSchedule, of_even_betas_is_their_product) {
  const std::int64_t steps = 1000;
  const Array schedule = schedule_of({steps, steps, false});
  double bar = 1;
  for (std::int64_t t = 0; t < steps; ++t) {
    const double beta =
        1e-4 + (0.02 - 1e-4) * static_cast<double>(t) / static_cast<double>(steps - 1);
    const double before = bar;
    bar *= 1 - beta;
    const auto row = static_cast<std::size_t>(t);
    expect_near(at(schedule, row, signal), std::sqrt(bar));
    expect_near(at(schedule, row, noise), std::sqrt(1 - bar));
    expect_near(at(schedule, row, log_beta), std::log(beta));
    expect_near(at(schedule, row, of_noised), (1 - before) * std::sqrt(1 - beta) / (1 - bar), 1e-9);
    expect_near(at(schedule, row, of_start), beta * std::sqrt(before) / (1 - bar), 1e-9);
    EXPECT_EQ(at(schedule, row, time), static_cast<double>(t));
    if (t > 0)
      expect_near(at(schedule, row, log_variance), std::log(beta * (1 - before) / (1 - bar)), 1e-9);
  }
  EXPECT_EQ(at(schedule, 0, log_variance), at(schedule, 1, log_variance));
}

TEST(DiffusionSchedule, of_cosines_bounds_the_last_beta_alone) {
  const std::int64_t steps = 50;
  const Array schedule = schedule_of({steps, steps, true});
  const auto bar = [&](std::int64_t t) {
    const double x = (static_cast<double>(t) / static_cast<double>(steps) + 0.008) / 1.008;
    return std::pow(std::cos(x * std::acos(-1.0) / 2), 2);
  };
  for (std::int64_t t = 0; t + 1 < steps; ++t) {
    const auto row = static_cast<std::size_t>(t);
    expect_near(at(schedule, row, signal), std::sqrt(bar(t + 1) / bar(0)));
    EXPECT_LT(at(schedule, row, log_beta), std::log(0.999));
  }
  expect_near(at(schedule, steps - 1, log_beta), std::log(0.999));
}

TEST(DiffusionSchedule, with_fewer_times_has_the_noise_of_those_times) {
  const Array whole = schedule_of({100, 100, true});
  for (const std::int64_t used : {1, 2, 7, 100}) {
    const Array some = schedule_of({100, used, true});
    for (std::size_t row = 0; row < static_cast<std::size_t>(used); ++row) {
      const auto of_whole = static_cast<std::size_t>(at(some, row, time));
      EXPECT_EQ(at(some, row, signal), at(whole, of_whole, signal));
      const double before = row == 0 ? 1 : at(some, row - 1, signal);
      expect_near(at(some, row, log_beta),
                  std::log(1 - std::pow(at(some, row, signal) / before, 2)), 1e-9);
    }
    // Pictures begin as noise, so that the last used time has the most noise, also if it is alone.
    EXPECT_EQ(at(some, static_cast<std::size_t>(used - 1), time), 99);
    if (used > 1) {
      EXPECT_EQ(at(some, 0, time), 0);
    }
  }
}

TEST(DiffusionSchedule, one_time_has_all_the_noise_and_comes_from_no_other) {
  const Array whole = schedule_of({100, 100, false}), last = schedule_of({100, 1, false});
  const double bar = std::pow(at(whole, 99, signal), 2);
  EXPECT_EQ(at(last, 0, time), 99);
  EXPECT_EQ(at(last, 0, signal), at(whole, 99, signal));
  expect_near(at(last, 0, log_beta), std::log(1 - bar));
  EXPECT_EQ(at(last, 0, log_variance), at(last, 0, log_beta));
  EXPECT_EQ(at(last, 0, of_start), 1);
  EXPECT_EQ(at(last, 0, of_noised), 0);
  // A model that has one time at all: beta is bounded, or as large as one step makes it.
  const Array even = schedule_of({1, 1, false}), cosine = schedule_of({1, 1, true});
  expect_near(at(even, 0, signal), std::sqrt(0.9));
  expect_near(at(cosine, 0, signal), std::sqrt(0.001));
  for (const Array* one : {&even, &cosine}) {
    EXPECT_EQ(at(*one, 0, time), 0);
    for (std::size_t column = 0; column < columns; ++column)
      EXPECT_TRUE(std::isfinite(one->data[column])) << column;
  }
}

TEST(DrawTimes, are_spread_evenly_and_the_same_however_samples_are_cut) {
  const op::DrawTimes row{random_stream("t"), 10, {3, 4000, 0}, {4000}};
  const Array all = apply(row, exact, {scalar(5), scalar(9), scalar(0)}).values[0];
  std::vector<int> counts(10);
  for (const double t : all.data) ++counts.at(static_cast<std::size_t>(t));
  for (const int count : counts) EXPECT_NEAR(count, 400, 6 * std::sqrt(400.0));
  for (const Backend& backend : backends_of(row)) {
    op::DrawTimes half = row;
    half.window.first = 2000;
    half.shape = {2000};
    const Array second = apply(half, backend, {scalar(5), scalar(9), scalar(0)}).values[0];
    EXPECT_TRUE(std::equal(second.data.begin(), second.data.end(), all.data.begin() + 2000));
  }
}

constexpr std::int64_t entries = op::KeepLosses::entries;

/// What op::KeepLosses has of times once each has this squared loss at all entries.
Array full_losses(const std::vector<double>& squares) {
  Array losses = filled({static_cast<std::int64_t>(squares.size()), 2 + entries}, 0);
  std::size_t i = 0;
  for (const double square : squares) {
    losses.data[i++] = entries;
    losses.data[i++] = std::sqrt(square);
    for (std::int64_t entry = 0; entry < entries; ++entry) losses.data[i++] = square;
  }
  return losses;
}

TEST(DrawTimesByLoss, draws_as_uniform_sampling_until_every_time_has_all_its_losses) {
  Array losses = full_losses({1, 4, 9, 16, 25});
  losses.data[3 * (2 + entries)] = entries - 1;
  const op::DrawTimes even{random_stream("t"), 5, {3, 400, 0}, {400}};
  const op::DrawTimesByLoss row{even.stream, even.window, even.shape};
  const Array expected = apply(even, exact, {scalar(5), scalar(9), scalar(0)}).values[0];
  for (const Backend& backend : backends_of(row)) {
    const Arrays got = apply(row, backend, {scalar(5), scalar(9), scalar(0), losses}).values;
    EXPECT_EQ(got[0].data, expected.data);
    EXPECT_EQ(got[1].data, std::vector<double>(400, 1));
  }
}

// 0.999 in proportion to the root of the mean squared loss, 0.001 to all alike; the weights make up
// for it, so that the weighted mean of any function of the time is its mean over all times.
TEST(DrawTimesByLoss, draws_a_time_in_proportion_to_its_loss_and_weighs_it_by_the_inverse) {
  const std::vector<double> squares = {1, 4, 9, 16, 0};
  const std::int64_t samples = 40000;
  const op::DrawTimesByLoss row{random_stream("t"), {3, samples, 0}, {samples}};
  for (const Backend& backend : backends_of(row)) {
    const Arrays got =
        apply(row, backend, {scalar(5), scalar(9), scalar(0), full_losses(squares)}).values;
    std::vector<double> counts(squares.size());
    for (std::size_t b = 0; b < got[0].data.size(); ++b) {
      const auto t = static_cast<std::size_t>(got[0].data[b]);
      const double p = 0.001 / 5 + 0.999 * std::sqrt(squares.at(t)) / 10;
      ++counts[t];
      EXPECT_NEAR(got[1].data[b], 1 / (5 * p), 1e-6 / p);
    }
    for (std::size_t t = 0; t < squares.size(); ++t) {
      const double p = 0.001 / 5 + 0.999 * std::sqrt(squares[t]) / 10;
      EXPECT_NEAR(counts[t], samples * p, 6 * std::sqrt(samples * p)) << t;
    }
  }
}

TEST(DrawTimesByLoss, draws_all_times_alike_where_no_loss_is_left) {
  const std::int64_t samples = 4000;
  const op::DrawTimesByLoss row{random_stream("t"), {0, samples, 0}, {samples}};
  for (const Backend& backend : backends_of(row)) {
    const Arrays got =
        apply(row, backend, {scalar(5), scalar(9), scalar(0), full_losses({0, 0})}).values;
    EXPECT_NEAR(std::accumulate(got[0].data.begin(), got[0].data.end(), 0.0), samples / 2.0,
                6 * std::sqrt(samples / 4.0));
    EXPECT_EQ(got[1].data, std::vector<double>(got[1].data.size(), 1));
  }
}

TEST(DrawTimesByLoss, draws_the_same_however_samples_are_cut_and_reaches_times_of_every_stretch) {
  // More times than a CUDA block has threads, and no multiple of them.
  std::vector<double> squares(1111);
  for (std::size_t t = 0; t < squares.size(); ++t) squares[t] = static_cast<double>(t % 7 + 1);
  const op::DrawTimesByLoss row{random_stream("t"), {0, 2000, 0}, {2000}};
  const Arrays all =
      apply(row, exact, {scalar(5), scalar(9), scalar(0), full_losses(squares)}).values;
  EXPECT_LT(*std::ranges::min_element(all[0].data), 10);
  EXPECT_GT(*std::ranges::max_element(all[0].data), 1100);
  op::DrawTimesByLoss half = row;
  half.window.first = 1000;
  half.shape = {1000};
  for (const Backend& backend : backends_of(row)) {
    const Array second =
        apply(half, backend, {scalar(5), scalar(9), scalar(0), full_losses(squares)}).values[0];
    EXPECT_TRUE(std::equal(second.data.begin(), second.data.end(), all[0].data.begin() + 1000));
  }
}

TEST(KeepLosses, enters_the_mean_of_each_time_that_had_samples_and_drops_the_oldest) {
  for (const Backend& backend : backends_of(op::KeepLosses{})) {
    Array losses = filled({3, 2 + entries}, 0);
    const auto entry = [&](std::size_t t, std::size_t column) {
      return losses.data[t * (2 + entries) + column];
    };
    for (int step = 1; step <= entries + 2; ++step) {
      // Time 0 has two samples a step, time 1 one in the first step, time 2 none.
      const double square = step;
      const Array sums{{3, 2}, {2 * square, 2, step == 1 ? 9.0 : 0, step == 1 ? 1.0 : 0, 0, 0}};
      losses = apply(op::KeepLosses{}, backend, {sums, scalar(1)}, {losses}).values[0];
      EXPECT_EQ(entry(0, 0), std::min<double>(step, entries));
      EXPECT_EQ(entry(0, 2), square);
    }
    EXPECT_EQ(entry(0, 1 + entries), 3);  // of steps 3 to 12
    EXPECT_NEAR(entry(0, 1), std::sqrt(7.5), 1e-6);
    EXPECT_EQ(entry(1, 0), 1);
    EXPECT_EQ(entry(1, 1), 3);
    EXPECT_EQ(entry(2, 0), 0);
    EXPECT_EQ(entry(2, 1), 0);
    const Array sums = filled({3, 2}, 5);
    EXPECT_EQ(apply(op::KeepLosses{}, backend, {sums, scalar(0)}, {losses}).values[0].data,
              losses.data);
  }
}

TEST(WeighLosses, leaves_out_what_has_no_label_from_what_is_entered) {
  for (const Backend& backend : backends_of(op::WeighLosses{})) {
    const Arrays got = apply(op::WeighLosses{}, backend,
                             {{{3}, {2, 0, 0.5}}, {{3}, {4, -1, 0}}, {{3}, {0.5, 7, 2}}})
                           .values;
    EXPECT_EQ(got[0].data, (std::vector<double>{1, 0, 1}));
    EXPECT_EQ(got[1].data, (std::vector<double>{4, 1, 0, 0, 0.25, 1}));
  }
}

Array times(std::vector<double> values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return {shape, std::move(values)};
}

TEST(AddNoise, is_standard_normal_and_the_same_however_pictures_are_cut) {
  const Array schedule = schedule_of({10, 10, false});
  const Shape shape{4, 30, 20, 6};
  const Array start = uniform(shape, "x"), t = times({0, 3, 9, 5});
  const op::AddNoise row{.stream = random_stream("e"), .window = {2, 8, 4}};
  const Arrays reads = {start, t, schedule, scalar(5), scalar(9), scalar(0)};
  const Arrays all = apply(row, exact, reads).values;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < all[1].data.size(); ++i) {
    const double e = all[1].data[i];
    sum += e, squares += e * e;
    const auto sample = static_cast<std::size_t>(t.data[i / 3600]);
    expect_near(all[0].data[i],
                at(schedule, sample, signal) * start.data[i] + at(schedule, sample, noise) * e);
  }
  const auto count = static_cast<double>(all[1].data.size());
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2 / count));
  // Samples 2 and 3, channels 2 to 5.
  op::AddNoise part = row;
  part.window.first += 2;
  part.part = {{30, 20, 6}, {0, 0, 2}};
  Array cut{{2, 30, 20, 4}, {}};
  std::vector<double> expected;
  for (std::size_t pixel = 1200; pixel < 2400; ++pixel)
    for (std::size_t c = 2; c < 6; ++c) {
      cut.data.push_back(start.data[pixel * 6 + c]);
      expected.push_back(all[1].data[pixel * 6 + c]);
    }
  const Arrays got =
      apply(part, exact, {cut, times({9, 5}), schedule, scalar(5), scalar(9), scalar(0)}).values;
  EXPECT_EQ(got[1].data, expected);
}

struct LossSetup {
  Arrays reads;  // of op::DiffusionLoss
  bool learned = false;
};

/// Four samples at the first, the last and other times; bytes at the ends of the range among them.
LossSetup loss_setup(bool learned) {
  const Shape picture{4, 3, 2, 3};
  LossSetup setup{{}, learned};
  Array start = uniform(picture, "x_0");
  start.data[0] = -1, start.data[1] = 1;
  const Array schedule = schedule_of({8, 8, true}), t = times({0, 3, 7, 1});
  const op::AddNoise noise_row{.stream = random_stream("e"), .window = {0, 4, 0}};
  const Arrays noised =
      apply(noise_row, exact, {start, t, schedule, scalar(1), scalar(2), scalar(0)}).values;
  const Array labels{{4}, {1, 0, 2, 5}};
  setup.reads = {uniform({4, 3, 2, learned ? 6 : 3}, "output"),
                 start,
                 noised[0],
                 noised[1],
                 t,
                 labels,
                 schedule};
  return setup;
}

/// Which numbers of the output are of the predicted noise.
bool is_of_noise(std::size_t i) {
  return i % 6 < 3;
}

TEST(DiffusionLoss, its_gradient_is_that_of_the_error_alone_where_no_variance_is_learned) {
  const LossSetup setup = loss_setup(false);
  const op::DiffusionLoss loss{.simple = 0.75};
  const op::DiffusionLossGradient row{.simple = 0.75, .scale = 0.5};
  const Array gradient = apply(row, exact, setup.reads).values[0];
  expect_gradient(loss, setup.reads, 0, {filled({4}, 0.5)}, gradient);
}

// The bound trains the variance and not the mean, so each half of the gradient is that of another
// function.
TEST(DiffusionLoss, its_gradient_trains_the_mean_by_the_error_and_the_variance_by_the_bound) {
  const LossSetup setup = loss_setup(true);
  const op::DiffusionLossGradient row{true, false, 0.75, 0.5, 0.25};
  const Array gradient = apply(row, exact, setup.reads).values[0];
  for (const bool of_noise : {true, false}) {
    const op::DiffusionLoss loss{true, false, of_noise ? 0.75 : 0, of_noise ? 0 : 0.5};
    const auto function = [&](const Arrays& moved) {
      // Only the half that is looked at moves.
      Arrays reads = setup.reads;
      for (std::size_t i = 0; i < reads[0].data.size(); ++i)
        if (is_of_noise(i) == of_noise) reads[0].data[i] = moved[0].data[i];
      return apply(loss, exact, reads).values;
    };
    Array half = gradient;
    for (std::size_t i = 0; i < half.data.size(); ++i)
      if (is_of_noise(i) != of_noise) half.data[i] = 0;
    expect_gradient(of_noise ? "the error" : "the bound", function, setup.reads, 0,
                    {filled({4}, 0.25)}, half);
  }
}

TEST(DiffusionLoss, its_weighted_gradient_is_that_of_the_weighted_losses) {
  LossSetup setup = loss_setup(true);
  const op::DiffusionLossGradient plain{true, false, 0.75, 0.5, 0.25};
  op::DiffusionLossGradient weighted = plain;
  weighted.weighted = true;
  Array expected = apply(plain, exact, setup.reads).values[0];
  const std::vector<double> weights = {0.5, 2, 0, 4};
  const std::size_t of_sample = expected.data.size() / weights.size();
  for (std::size_t i = 0; i < expected.data.size(); ++i) expected.data[i] *= weights[i / of_sample];
  setup.reads.push_back({{4}, weights});
  EXPECT_EQ(apply(weighted, exact, setup.reads).values[0].data, expected.data);
}

TEST(DiffusionLoss, of_a_sample_without_a_label_is_nothing) {
  LossSetup setup = loss_setup(true);
  setup.reads[5].data = {-1, 0, -1, 5};
  const Array loss = apply(op::DiffusionLoss{true, false, 1, 1}, exact, setup.reads).values[0];
  EXPECT_EQ(loss.data[0], 0);
  EXPECT_NE(loss.data[1], 0);
  const Array gradient =
      apply(op::DiffusionLossGradient{true, false, 1, 1, 1}, exact, setup.reads).values[0];
  for (std::size_t i = 0; i < 36; ++i) EXPECT_EQ(gradient.data[i], 0);
}

// A model that knows the noise says the true mean: its divergence is 0, and what is left of the
// bound is the first time's levels and what x_T tells.
TEST(DiffusionLoss, the_bound_of_a_model_that_knows_the_noise_is_that_of_the_levels) {
  LossSetup setup = loss_setup(false);
  setup.reads[0] = setup.reads[3];
  const Array loss =
      apply(op::DiffusionLoss{.simple = 1, .bound = 1}, exact, setup.reads).values[0];
  for (const std::size_t sample : {1U, 2U, 3U}) EXPECT_NEAR(loss.data[sample], 0, 1e-9);
  EXPECT_GT(loss.data[0], 0);
  const Array whole =
      apply(op::DiffusionLoss{.whole = true, .simple = 0, .bound = 1}, exact, setup.reads)
          .values[0];
  double prior = 0;
  const double mean_factor = at(setup.reads[6], 7, signal),
               deviation = at(setup.reads[6], 7, noise);
  for (std::size_t i = 36; i < 54; ++i) {
    const double mean = mean_factor * setup.reads[1].data[i], variance = deviation * deviation;
    prior += 0.5 * (variance + mean * mean - 1 - std::log(variance)) / std::log(2.0) / 18;
  }
  EXPECT_NEAR(whole.data[2], prior, 1e-9);
}

Array denoised(const op::Denoise& row, const Array& output, const Array& schedule, double index,
               const Array& x) {
  return apply(row, exact, {output, schedule, scalar(index), scalar(5), scalar(0)}, {x}).values[0];
}

// With the true noise an implicit step without noise of its own lands on the same path at the time
// before, and the last one on the picture.
TEST(Denoise, by_implicit_steps_follows_the_path_that_the_noise_has_made) {
  const Array schedule = schedule_of({40, 5, true});
  const Shape shape{2, 3, 3, 3};
  const Array start = uniform(shape, "x_0"), e = uniform(shape, "e", -2, 2);
  const auto on_path = [&](std::size_t row) {
    Array x = start;
    for (std::size_t i = 0; i < x.data.size(); ++i)
      x.data[i] = at(schedule, row, signal) * start.data[i] + at(schedule, row, noise) * e.data[i];
    return x;
  };
  const op::Denoise row{.stream = random_stream("z"), .implicit = true, .window = {0, 2, 0}};
  for (std::size_t index = 4; index > 0; --index) {
    const Array got = denoised(row, e, schedule, static_cast<double>(index), on_path(index));
    const Array expected = on_path(index - 1);
    for (std::size_t i = 0; i < got.data.size(); ++i)
      EXPECT_NEAR(got.data[i], expected.data[i], 1e-9);
  }
  const Array picture = denoised(row, e, schedule, 0, on_path(0));
  for (std::size_t i = 0; i < picture.data.size(); ++i)
    EXPECT_NEAR(picture.data[i], start.data[i], 1e-9);
}

TEST(Denoise, by_steps_of_the_process_adds_the_noise_of_the_sample_but_in_the_last) {
  const Array schedule = schedule_of({40, 40, false});
  const Shape shape{64, 5, 4, 3};
  const Array x = uniform(shape, "x"), e = uniform(shape, "e");
  const op::Denoise row{.stream = random_stream("z"), .window = {0, 64, 0}};
  const Array last = denoised(row, e, schedule, 0, x);
  for (std::size_t i = 0; i < last.data.size(); ++i) {
    const double start = (x.data[i] - at(schedule, 0, noise) * e.data[i]) / at(schedule, 0, signal);
    EXPECT_NEAR(last.data[i],
                at(schedule, 0, of_start) * std::clamp(start, -1.0, 1.0) +
                    at(schedule, 0, of_noised) * x.data[i],
                1e-12);
  }
  const std::size_t index = 20;
  const Array got = denoised(row, e, schedule, index, x);
  double squares = 0;
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    const double start =
        (x.data[i] - at(schedule, index, noise) * e.data[i]) / at(schedule, index, signal);
    const double mean = at(schedule, index, of_start) * std::clamp(start, -1.0, 1.0) +
                        at(schedule, index, of_noised) * x.data[i];
    squares += std::pow(got.data[i] - mean, 2);
  }
  const auto count = static_cast<double>(got.data.size());
  EXPECT_NEAR(squares / count, std::exp(at(schedule, index, log_variance)),
              5 * std::sqrt(2 / count) * std::exp(at(schedule, index, log_variance)));
  // The second half of the samples made alone, as the samples that they are.
  Array half{{32, 5, 4, 3}, {x.data.begin() + 1920, x.data.end()}},
      half_e{{32, 5, 4, 3}, {e.data.begin() + 1920, e.data.end()}};
  const op::Denoise alone{.stream = random_stream("z"), .window = {0, 32, 0}};
  const Array second =
      apply(alone, exact, {half_e, schedule, scalar(index), scalar(5), scalar(32)}, {half})
          .values[0];
  EXPECT_TRUE(std::equal(second.data.begin(), second.data.end(), got.data.begin() + 1920));
}

// A clamp would make a dark or bright pixel of it, and a picture of a broken model looks whole.
TEST(Denoise, gives_no_number_where_the_model_gives_none) {
  const Array schedule = schedule_of({40, 5, true});
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinity = std::numeric_limits<double>::infinity();
  const Array x = uniform({1, 1, 1, 4}, "x");
  Array e = x;
  e.data = {0.5, nan, infinity, -infinity};
  for (const bool implicit : {true, false}) {
    const op::Denoise row{.stream = random_stream("z"), .implicit = implicit, .window = {0, 1, 0}};
    for (const Backend& backend : backends_of(row))
      for (const double index : {0., 3.}) {
        const Array got =
            apply(row, backend, {e, schedule, scalar(index), scalar(5), scalar(0)}, {x}).values[0];
        EXPECT_TRUE(std::isfinite(got.data[0]));
        for (const std::size_t i : {1U, 2U, 3U}) EXPECT_FALSE(std::isfinite(got.data[i])) << i;
      }
  }
}

TEST(DiffusionLoss, the_bound_of_a_model_that_gives_no_number_is_none) {
  for (const bool learned : {true, false}) {
    LossSetup setup = loss_setup(learned);
    for (const std::size_t of_picture : {0U, 1U, 2U, 3U})
      setup.reads[0].data[of_picture * (learned ? 36 : 18)] =
          std::numeric_limits<double>::quiet_NaN();
    const op::DiffusionLoss loss{.learned = learned, .whole = true, .simple = 0, .bound = 1};
    for (const Backend& backend : backends_of(loss)) {
      const Array losses = apply(loss, backend, setup.reads).values[0];
      for (const double value : losses.data) EXPECT_FALSE(std::isfinite(value)) << learned;
    }
  }
}

TEST(MovingAverage, follows_its_weight_where_the_update_is_applied) {
  const Array weight{{3}, {1, 2, 3}}, average{{3}, {0, 4, -1}};
  for (const Backend& backend : backends_of(op::MovingAverage{})) {
    EXPECT_EQ(
        apply(op::MovingAverage{0.75}, backend, {weight, scalar(1)}, {average}).values[0].data,
        (std::vector<double>{0.25, 3.5, 0}));
    EXPECT_EQ(
        apply(op::MovingAverage{0.75}, backend, {weight, scalar(0)}, {average}).values[0].data,
        average.data);
  }
}

}  // namespace
}  // namespace fourfold::numerics
