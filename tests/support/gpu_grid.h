// Models trained on grids of rank threads that share one GPU, against the same on the CPU in
// float64. Header only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/model.h"
#include "run/cuda/shared_gpu_backend.h"
#include "run/cuda/staged_world.h"
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

/// How tensors pass between the ranks.
enum class Passes : std::uint8_t { shared, staged };

/// Programs on rank threads that work on one device. It outlives this.
class GpuRanks {
 public:
  GpuRanks(run::cuda::Device& device, run::cuda::CudaOptions options, Passes passes)
      : gpu_(device), options_(std::move(options)), passes_(passes) {}

  /// The setup, for GridRun, while this lives.
  RunSetup on_gpu(RunSetup setup) {
    setup.backend = [this](comm::World& world) { return make_backend(world); };
    return setup;
  }

 private:
  struct StagedView {
    StagedView(run::cuda::Device& device, comm::World& world) : view(device, world) {}
    run::cuda::StagedWorld view;
  };
  class StagedBackend : private StagedView, public run::cuda::CudaBackend {
   public:
    StagedBackend(run::cuda::Device& device, comm::World& world, run::cuda::CudaOptions options)
        : StagedView(device, world), CudaBackend(device, completed(world, std::move(options))) {}

   private:
    run::cuda::CudaOptions completed(comm::World& world, run::cuda::CudaOptions options) {
      options.world = &world;
      options.device_world = &view;
      return options;
    }
  };

  std::unique_ptr<run::Backend> make_backend(comm::World& world) {
    if (passes_ == Passes::shared) return run::cuda::make_shared_gpu_backend(gpu_, world, options_);
    gpu_.device().enter();
    return std::make_unique<StagedBackend>(gpu_.device(), world, options_);
  }

  run::cuda::SharedGpu gpu_;
  run::cuda::CudaOptions options_;
  Passes passes_;
};

/// Two stages: a mesh for each, the first with the layers up to `last_layer`.
struct TwoStages {
  plan::Grid first, second;
  std::int64_t last_layer = 0;
};
inline program::Job compile_stages(const RunSetup& setup, const TwoStages& stages,
                                   const machine::Target& target) {
  const std::int64_t samples = setup.plan.micro_batch_size * stages.first.z * stages.first.data;
  const auto graphs =
      model::build(setup.model(), {samples, setup.plan.seq_length, setup.plan.global_batch_size},
                   setup.optimizer);
  plan::PlanSpec spec = setup.plan;
  spec.pipeline = {.stages = 2,
                   .schedule = pipeline::Schedule::one_f_one_b,
                   .grids = {stages.first, stages.second}};
  spec.pipeline.layers = {stages.last_layer + 1, graphs.num_layers - stages.last_layer - 1};
  auto [model, plan] = std::get<plan::PlannedModel>(plan::plan_model(graphs, spec));
  return compile::compile(model, plan, target);
}

/// One rank of the CPU in float64, with the same samples in its micro-batches.
inline RunSetup serial_of(RunSetup setup, std::int64_t samples) {
  setup.plan.compute = DType::f64;
  setup.plan.grid = {};
  setup.plan.micro_batch_size = samples;
  return setup;
}

/// k eps sqrt(n) with k = 8, eps = 2^-24, and n = 400 additions at most on the way to an element:
/// as for ten steps against PyTorch (tests/golden).
inline constexpr double float_bound = 1e-5;
/// The same for values that are rounded to bf16, eps = 2^-9, as often as an element of the last
/// activation is on its way through two blocks: 12 stored tensors each, and 4 around them.
inline const double bf16_bound = 8 * 0x1p-9 * std::sqrt(28);

/// Losses and gradient norms of each step, gradients of the first and weights after the last.
inline void expect_close(const TrainingOutcome& got, const TrainingOutcome& expected,
                         double bound = float_bound) {
  const auto relative = [](double a, double b) { return std::abs(a - b) / std::abs(b); };
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  double worst_loss = 0, worst_tensor = 0;
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    const double loss = relative(got.losses[step], expected.losses[step]);
    EXPECT_LE(loss, bound) << "step " << step;
    EXPECT_LE(relative(got.norms[step], expected.norms[step]), bound) << "step " << step;
    worst_loss = std::max(worst_loss, loss);
  }
  EXPECT_LE(relative(got.evaluation, expected.evaluation), bound);
  double total = 0;
  for (const auto& [name, of] : expected.gradients) total = std::hypot(total, norm(of));
  const auto expect_same = [&](const Tensors& ours, const Tensors& theirs, const char* what) {
    EXPECT_EQ(ours.size(), theirs.size());
    for (const auto& [name, of] : theirs) {
      ASSERT_TRUE(ours.contains(name)) << name;
      const KeyBias keys = key_bias(name, of.size());
      const double error =
          relative_error(without(ours.at(name), keys), without(of, keys), 1e-6 * total);
      EXPECT_LE(error, 2 * bound) << what << " of " << name;
      worst_tensor = std::max(worst_tensor, error);
    }
  };
  expect_same(got.gradients, expected.gradients, "gradient");
  expect_same(got.weights, expected.weights, "weights");
  std::printf("worst errors: loss %.1e, tensor %.1e\n", worst_loss, worst_tensor);
}

/// The losses of some steps from the weights that a seed gives, and a word of each rank when it is
/// done with them.
inline std::vector<double> losses_of(const RunSetup& setup, program::Job job, std::int64_t steps,
                                     double rate = lr) {
  GridRun grid(setup, std::move(job));
  std::vector<double> losses;
  grid.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
    for (std::int64_t step = 0; step < steps; ++step) {
      auto feeder = random_batch(setup, static_cast<std::uint64_t>(step));
      const double loss = loss_of(
          rank.executor.run(op::ProgramKind::train, SmallRun::block(step, rate, 1), &feeder));
      if (rank.rank == 0) losses.push_back(loss);
    }
  });
  return losses;
}

inline void expect_same_losses(const std::vector<double>& got, const std::vector<double>& expected,
                               double bound) {
  ASSERT_EQ(got.size(), expected.size());
  double worst = 0;
  for (std::size_t step = 0; step < got.size(); ++step)
    worst = std::max(worst, std::abs(got[step] / expected[step] - 1));
  EXPECT_LE(worst, bound);
  std::printf("worst error of %zu losses: %.1e\n", got.size(), worst);
}

}  // namespace fourfold::test
