// Models trained on grids of rank threads that share one GPU, against the same on the CPU in
// float64. Header only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "model/model.h"
#include "run/cuda/shared_gpu_backend.h"
#include "support/grids.h"
#include "support/outcome.h"

namespace fourfold::test {

/// A GPT that every grid of powers of two with at most 16 ranks divides. Small, because a CPU takes
/// the place of the GPU too.
inline RunSetup gpt_for_grids(DType compute = DType::f32) {
  RunSetup setup;
  setup.gpt = {.num_layers = 2,
               .num_attention_heads = 4,
               .hidden_size = 16,
               .ffn_hidden_size = 32,
               .max_position_embeddings = 4,
               .vocab_size = 24,
               .dropout = 0.1};
  setup.plan = {.global_batch_size = 16, .micro_batch_size = 8, .seq_length = 4};
  setup.plan.compute = compute;
  setup.optimizer.grad_clip = 0.5;
  setup.reference_kernels = true;  // of the CPU
  return setup;
}

/// Trains programs for that target on ranks that share the GPU.
inline Outcome train_on_shared_gpu(run::cuda::Device& device, run::cuda::CudaOptions options,
                                   RunSetup setup, program::Job job, const Tensors& weights) {
  run::cuda::SharedGpu gpu(device);
  setup.backend = [&](comm::World& world) {
    return run::cuda::make_shared_gpu_backend(gpu, world, options);
  };
  return run_job(setup, std::move(job), weights, Gradients::in_the_moments);
}

/// On one rank of a CPU, in float64; samples and micro-batches are those of any grid.
inline Outcome train_serially(RunSetup setup, const Tensors& weights) {
  setup.plan.compute = DType::f64;
  set_grid(setup, {});
  setup.plan.pipeline = {};
  return run_job(setup, GridRun::compile_job(setup), weights, Gradients::in_the_moments);
}

/// k eps sqrt(n) with k = 8, eps = 2^-24, and n = 400 additions at most on the way to an element:
/// as for ten steps against PyTorch (tests/golden).
inline constexpr double float_bound = 1e-5;

/// Losses, gradients of the first step and weights after the last one.
inline void expect_close(const Outcome& got, const Outcome& expected) {
  const auto relative = [](double a, double b) { return std::abs(a - b) / std::abs(b); };
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  double worst = 0;
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_LE(relative(got.losses[step], expected.losses[step]), float_bound) << "step " << step;
    EXPECT_LE(relative(got.norms[step], expected.norms[step]), float_bound) << "step " << step;
    worst = std::max(worst, relative(got.losses[step], expected.losses[step]));
  }
  EXPECT_LE(relative(got.evaluation, expected.evaluation), float_bound);
  double total = 0, gradient = 0;
  for (const auto& [name, of] : expected.gradients) total = std::hypot(total, norm(of));
  const auto expect_same = [&](const Tensors& ours, const Tensors& theirs, const char* what) {
    EXPECT_EQ(ours.size(), theirs.size());
    for (const auto& [name, of] : theirs) {
      ASSERT_TRUE(ours.contains(name)) << name;
      const KeyBias keys = key_bias(name, of.size());
      const double error =
          relative_error(without(ours.at(name), keys), without(of, keys), 1e-6 * total);
      EXPECT_LE(error, 2 * float_bound) << what << " of " << name;
      gradient = std::max(gradient, error);
    }
  };
  expect_same(got.gradients, expected.gradients, "gradient");
  expect_same(got.weights, expected.weights, "weights");
  std::printf("worst errors: loss %.1e, tensor %.1e\n", worst, gradient);
}

}  // namespace fourfold::test
