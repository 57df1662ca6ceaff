// Whole grids of ranks that share one GPU: the losses, gradients and weights of one rank.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/restore.h"
#include "checkpoint/save.h"
#include "support/gpu.h"
#include "support/gpu_grid.h"
#include "support/simulated_disk.h"

namespace fourfold::test {
namespace {

/// Every axis alone, and together; one grid where a CPU takes the place of the GPU
/// (tests/unit/run/cuda has others).
std::vector<plan::Grid> grids() {
  if (is_emulated()) return {{.x = 2, .y = 2, .data = 1}};
  return {{.x = 2, .data = 1},
          {.y = 2, .data = 1},
          {.z = 2, .data = 1},
          {.data = 2},
          {.x = 2, .y = 2, .data = 1},
          {.x = 2, .y = 2, .z = 2, .data = 1},
          {.x = 2, .y = 2, .z = 2, .data = 2}};
}

/// Own kernels alone are tried on a CPU in tests/unit/run/cuda.
std::vector<GpuKernels> kernels_of_grids() {
  std::vector<GpuKernels> kernels = gpu_kernels();
  if (is_emulated()) kernels.erase(kernels.begin());
  return kernels;
}

/// As many steps as a run has whose losses are compared.
std::int64_t long_run_steps() {
  return is_emulated() ? 3 : 10;
}

class GridsOnGpu : public OnGpu {
 protected:
  const machine::Target& target() const { return GetParam().target; }

  /// Calls `what` with a setup of each grid that runs on the GPU, and its programs.
  template <class What>
  void for_each_grid(RunSetup setup, Passes passes, const What& what) {
    for (const plan::Grid& grid : grids()) {
      set_grid(setup, grid);
      SCOPED_TRACE(name_of(setup.plan));
      try {
        GpuRanks ranks(gpu().device(), gpu().options(), passes);
        what(ranks.on_gpu(setup), GridRun::compile_for(setup, target()));
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
};

TEST_P(GridsOnGpu, have_the_losses_gradients_and_weights_of_the_cpu_in_float64) {
  const RunSetup setup = gpt_for_grids();
  const RunSetup serial = serial_of(setup, setup.plan.micro_batch_size);
  const Tensors weights = rough_weights(serial);
  const TrainingOutcome expected =
      run_job(serial, GridRun::compile_job(serial), weights, Gradients::in_the_moments);
  for_each_grid(setup, Passes::shared, [&](const RunSetup& on_gpu, program::Job job) {
    expect_close(run_job(on_gpu, std::move(job), weights, Gradients::in_the_moments), expected);
  });
}

TEST_P(GridsOnGpu, lose_over_ten_steps_what_one_rank_of_the_gpu_loses) {
  RunSetup setup = gpt_for_grids();
  SmallRun alone = run(setup);
  alone.init(false);
  std::vector<double> expected;
  for (std::int64_t step = 0; step < long_run_steps(); ++step) {
    auto feeder = random_batch(setup, static_cast<std::uint64_t>(step));
    expected.push_back(loss_of(alone.step(feeder, step, 1e-3)));
  }
  for_each_grid(setup, Passes::shared, [&](const RunSetup& on_gpu, program::Job job) {
    expect_same_losses(losses_of(on_gpu, std::move(job), long_run_steps()), expected, float_bound);
  });
}

TEST_P(GridsOnGpu, train_in_bf16_and_repeat_their_bits) {
  const RunSetup setup = gpt_for_grids(DType::bf16);
  SmallRun alone = run(setup);
  alone.init(false);
  std::vector<double> expected;
  // Weights that barely move: each step compares the same function, not where a course has led.
  for (std::int64_t step = 0; step < 4; ++step) {
    auto feeder = random_batch(setup, static_cast<std::uint64_t>(step));
    expected.push_back(loss_of(alone.step(feeder, step, 1e-6)));
  }
  for_each_grid(setup, Passes::shared, [&](const RunSetup& on_gpu, const program::Job& job) {
    const std::vector<double> once = losses_of(on_gpu, job, 4, 1e-6);
    expect_same_losses(once, expected, bf16_bound);
    EXPECT_EQ(losses_of(on_gpu, job, 4, 1e-6), once);
  });
}

TEST_P(GridsOnGpu, whose_tensors_pass_through_the_host_have_the_bits_of_those_that_do_not) {
  const RunSetup setup = gpt_for_grids();
  std::vector<std::vector<double>> shared;
  for_each_grid(setup, Passes::shared, [&](const RunSetup& on_gpu, program::Job job) {
    shared.push_back(losses_of(on_gpu, std::move(job), 3));
  });
  std::size_t next = 0;
  for_each_grid(setup, Passes::staged, [&](const RunSetup& on_gpu, program::Job job) {
    EXPECT_EQ(losses_of(on_gpu, std::move(job), 3), shared.at(next++));
  });
}

TEST_P(GridsOnGpu, a_pipeline_of_two_stages_trains_as_one_rank_of_the_cpu_does) {
  RunSetup setup = gpt_for_grids();
  setup.plan.micro_batch_size = 4;
  const RunSetup serial = serial_of(setup, 4);
  const Tensors weights = rough_weights(serial);
  const TrainingOutcome expected =
      run_job(serial, GridRun::compile_job(serial), weights, Gradients::in_the_moments);
  std::vector<TwoStages> pipelines = {{{.data = 1}, {.data = 1}, 0}};
  if (!is_emulated()) pipelines.push_back({{.x = 2, .data = 1}, {.y = 2, .data = 2}, 0});
  for (const TwoStages& stages : pipelines)
    for (const Passes passes : {Passes::shared, Passes::staged}) {
      GpuRanks ranks(gpu().device(), gpu().options(), passes);
      expect_close(run_job(ranks.on_gpu(setup), compile_stages(setup, stages, target()), weights,
                           Gradients::in_the_moments),
                   expected);
    }
}

TEST_P(GridsOnGpu, a_unet_on_two_ranks_trains_as_one_rank_of_the_cpu_does) {
  RunSetup setup = diffusion_model();
  setup.plan.compute = DType::f32;
  setup.reference_kernels = true;
  if (is_emulated()) setup.plan.global_batch_size = 8;
  set_grid(setup, {});
  const RunSetup serial = serial_of(setup, setup.plan.micro_batch_size);
  const Tensors weights = rough_weights(serial);
  const TrainingOutcome expected =
      run_job(serial, GridRun::compile_job(serial), weights, Gradients::in_the_moments);
  std::vector<plan::Grid> two = {{.x = 2, .data = 1}};
  if (!is_emulated()) two.push_back({.data = 2});
  for (const plan::Grid& grid : two) {
    set_grid(setup, grid);
    SCOPED_TRACE(name_of(setup.plan));
    GpuRanks ranks(gpu().device(), gpu().options(), Passes::shared);
    expect_close(run_job(ranks.on_gpu(setup), GridRun::compile_for(setup, target()), weights,
                         Gradients::in_the_moments),
                 expected);
  }
}

TEST_P(GridsOnGpu, what_four_ranks_have_saved_one_goes_on_from) {
  RunSetup setup = gpt_for_grids();
  constexpr std::int64_t saved_at = 3, steps = 6;
  const auto step = [&](GridRun::RankRun& rank, std::int64_t number) {
    auto feeder = random_batch(setup, static_cast<std::uint64_t>(number));
    return loss_of(
        rank.executor.run(op::ProgramKind::train, SmallRun::block(number, 1e-3, 1), &feeder));
  };
  const auto bytes_of = [](GridRun::RankRun& rank) {
    return [&rank](const program::Buffer& buffer) { return rank.executor.bytes(buffer); };
  };
  SimulatedDisk disk;
  std::vector<double> expected, got;
  GpuRanks ranks(gpu().device(), gpu().options(), Passes::shared);
  set_grid(setup, {.x = 2, .y = 2, .data = 1});
  GridRun(ranks.on_gpu(setup), GridRun::compile_for(setup, target()))
      .run([&](GridRun::RankRun& rank) {
        rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
        for (std::int64_t number = 0; number < steps; ++number) {
          if (number == saved_at) {
            checkpoint::Store store(disk, "/ckpt");
            if (rank.rank == 0) store.prepare();
            checkpoint::Saver saver(store, &rank.world);
            checkpoint::Manifest facts;
            facts.step = saved_at;
            saver.start(facts, rank.bundle.at(op::ProgramKind::train), bytes_of(rank));
            EXPECT_EQ(saver.finish().error, "");
          }
          const double loss = step(rank, number);
          if (rank.rank == 0 && number >= saved_at) expected.push_back(loss);
        }
      });
  set_grid(setup, {});
  GridRun(ranks.on_gpu(setup), GridRun::compile_for(setup, target()))
      .run([&](GridRun::RankRun& rank) {
        checkpoint::Store store(disk, "/ckpt");
        checkpoint::restore(store, store.open(saved_at), {}, rank.bundle.at(op::ProgramKind::train),
                            bytes_of(rank), &rank.world);
        for (std::int64_t number = saved_at; number < steps; ++number)
          got.push_back(step(rank, number));
      });
  expect_same_losses(got, expected, float_bound);
}

INSTANTIATE_TEST_SUITE_P(By, GridsOnGpu, testing::ValuesIn(kernels_of_grids()), kernels_name);

}  // namespace
}  // namespace fourfold::test
