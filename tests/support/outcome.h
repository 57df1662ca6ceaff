// What a few steps of training give, and how far a parallel run may be from the serial one. Header
// only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "support/compare.h"
#include "support/grid_run.h"

namespace fourfold::test {

constexpr std::int64_t num_steps = 5;
constexpr double lr = 1e-3;

struct TrainingOutcome {
  std::vector<double> losses, norms;             // by step; norms before clipping
  Tensors gradients;                             // of the first step
  Tensors weights;                               // after the last step
  std::map<std::string, std::uint64_t> digests;  // after init
  double evaluation = 0;                         // of the trained weights, on the training batch
  /// Keys are turned by their position: their biases have gradients then.
  bool turns_keys = false;

  KeyBias idle_keys(const std::string& name, std::size_t elements) const {
    return turns_keys ? KeyBias() : key_bias(name, elements);
  }
};

inline double loss_of(const op::ResultBlock& result) {
  EXPECT_EQ(result.applied, 1);
  return result.loss_sum / static_cast<double>(result.valid_count);
}

/// Weights, biases and gains that make no gradient special.
inline Tensors rough_weights(const RunSetup& setup) {
  RunSetup serial = setup;
  serial.plan.grid = {};
  serial.plan.shard_states = false;
  serial.plan.shard_sequence = false;
  serial.plan.strategy = plan::Strategy::axonn;
  serial.plan.micro_batch_size =
      setup.plan.micro_batch_size * setup.plan.grid.data * setup.plan.grid.z;
  SmallRun run(serial);
  run.init(true);
  Tensors weights;
  for (const program::Buffer* b : run.parameters()) weights[b->name] = run.doubles(*b);
  return weights;
}

/// Where the gradients of the first step are seen.
enum class Gradients : std::uint8_t {
  in_the_step,     // as their norm is taken, one instruction of each rank at a time
  in_the_moments,  // AdamW's first moments after it, which are 1 - beta1 times the clipped ones
  nowhere
};

/// Trains a job on threads, from `weights`.
inline TrainingOutcome run_job(const RunSetup& setup, program::Job job, const Tensors& weights,
                               Gradients seen = Gradients::in_the_step,
                               std::int64_t steps = num_steps) {
  GridRun grid(setup, std::move(job));
  TrainingOutcome outcome;
  outcome.turns_keys = setup.llama.has_value();
  std::mutex mutex;
  grid.run([&](GridRun::RankRun& rank) {
    const bool is_first = rank.rank == 0;
    rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
    for (const auto& [name, digest] : GridRun::digests(rank)) {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(outcome.digests.emplace(name, digest).first->second, digest)
          << name << " on rank " << rank.rank;
    }
    for (const program::Buffer& buffer : rank.bundle.at(op::ProgramKind::train).buffers)
      if (buffer.role == program::BufferRole::parameter)
        GridRun::scatter(rank, buffer, weights.at(buffer.name));
    auto feeder = random_batch(setup);
    for (std::int64_t step = 0; step < steps; ++step) {
      const op::StepBlock block = SmallRun::block(step, lr, 1);
      const op::ResultBlock result =
          step == 0 && seen == Gradients::in_the_step
              ? grid.step_with_gradients(rank, feeder, block, outcome.gradients)
              : rank.executor.run(op::ProgramKind::train, block, &feeder);
      if (step == 0 && seen == Gradients::in_the_moments)
        for (const program::Buffer& buffer : rank.bundle.at(op::ProgramKind::train).buffers)
          if (buffer.name.starts_with("m/"))
            grid.collect(rank, buffer, buffer.name.substr(2), outcome.gradients);
      if (!is_first) continue;
      outcome.losses.push_back(loss_of(result));
      outcome.norms.push_back(result.grad_norm);
    }
    for (const program::Buffer& buffer : rank.bundle.at(op::ProgramKind::train).buffers)
      if (buffer.role == program::BufferRole::parameter)
        grid.collect(rank, buffer, buffer.name, outcome.weights);
    const op::ResultBlock result = rank.executor.run(op::ProgramKind::evaluate, {}, &feeder);
    if (is_first) outcome.evaluation = result.loss_sum / static_cast<double>(result.valid_count);
  });
  return outcome;
}

/// The largest error of a tensor; the floor is 1e-6 times the norm of all.
inline double error_of(const Tensors& got, const Tensors& wanted) {
  double total = 0, worst = 0;
  for (const auto& [name, values] : wanted) total = std::hypot(total, norm(values));
  for (const auto& [name, values] : wanted) {
    const KeyBias keys = key_bias(name, values.size());
    worst = std::max(
        worst, relative_error(without(got.at(name), keys), without(values, keys), 1e-6 * total));
  }
  return worst;
}

/// The largest errors seen in a matrix, for the log.
struct Worst {
  double first_loss = 0, last_loss = 0, norm = 0, gradient = 0;
  std::string gradient_name;
};

/// `most_later`: the largest error of a gradient norm once weights have changed.
inline void compare(const TrainingOutcome& got, const TrainingOutcome& serial, double most_later,
                    Worst& worst) {
  const auto relative = [](double a, double b) { return std::abs(a - b) / std::abs(b); };
  const double first = relative(got.losses[0], serial.losses[0]),
               last = relative(got.losses.back(), serial.losses.back());
  EXPECT_LE(first, 1e-13);
  EXPECT_LE(last, 1e-12);
  worst.first_loss = std::max(worst.first_loss, first);
  worst.last_loss = std::max(worst.last_loss, last);
  for (std::size_t step = 0; step < serial.norms.size(); ++step) {
    const double error = relative(got.norms[step], serial.norms[step]);
    EXPECT_LE(error, step == 0 ? 1e-12 : most_later) << "gradient norm of step " << step + 1;
    EXPECT_GT(serial.norms[step], 1) << "clipping is active";
    worst.norm = std::max(worst.norm, error);
  }
  EXPECT_LE(relative(got.evaluation, serial.evaluation), 1e-12);
  EXPECT_EQ(got.digests, serial.digests) << "initial state, bit for bit";

  double total = 0;
  for (const auto& [name, gradient] : serial.gradients) total = std::hypot(total, norm(gradient));
  EXPECT_EQ(got.gradients.size(), serial.gradients.size());
  for (const auto& [name, expected] : serial.gradients) {
    const auto place = got.gradients.find(name);
    if (place == got.gradients.end() || place->second.size() != expected.size()) {
      ADD_FAILURE() << "no whole gradient of " << name;
      continue;
    }
    const KeyBias keys = serial.idle_keys(name, expected.size());
    for (std::size_t i = keys.begin; i < keys.end; ++i)
      EXPECT_LE(std::abs(place->second[i]), 1e-14 * total) << name;
    const double error =
        relative_error(without(place->second, keys), without(expected, keys), 1e-6 * total);
    EXPECT_LE(error, 1e-12) << "gradient of " << name;
    if (error > worst.gradient) worst.gradient = error, worst.gradient_name = name;
  }
}

inline void print(const Worst& worst, const std::string& what) {
  std::printf(
      "%s; worst errors: loss %.1e at step 1, %.1e at the last one, gradient norm %.1e, gradient "
      "%.1e (%s)\n",
      what.c_str(), worst.first_loss, worst.last_loss, worst.norm, worst.gradient,
      worst.gradient_name.c_str());
}

}  // namespace fourfold::test
