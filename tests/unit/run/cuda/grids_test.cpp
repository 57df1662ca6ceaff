// Grids of ranks that share a GPU which is not there: the same losses, gradients and weights as one
// rank on the CPU.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "support/gpu_grid.h"
#include "unit/run/cuda/fake_gpu.h"

namespace fourfold::run::cuda {
namespace {

using test::GpuRanks;
using test::GridRun;
using test::Passes;
using test::RunSetup;
using test::Tensors;
using test::TrainingOutcome;

TrainingOutcome train(const RunSetup& setup, program::Job job, const Tensors& weights,
                      Passes passes, unsigned seed = 1) {
  FakeGpu device(seed);
  TrainingOutcome outcome;
  {
    GpuRanks ranks(device, FakeGpu::options(), passes);
    outcome = test::run_job(ranks.on_gpu(setup), std::move(job), weights,
                            test::Gradients::in_the_moments);
  }
  EXPECT_EQ(device.live(), 0) << "all that was made is given back";
  EXPECT_EQ(device.captures, 0);
  return outcome;
}

TrainingOutcome serial_outcome(const RunSetup& setup, const Tensors& weights) {
  return test::run_job(setup, GridRun::compile_job(setup), weights,
                       test::Gradients::in_the_moments);
}

TEST(GridsOnAFakeGpu, train_a_gpt_as_one_rank_of_the_cpu_does) {
  RunSetup setup = test::gpt_for_grids();
  const RunSetup serial = test::serial_of(setup, setup.plan.micro_batch_size);
  const Tensors weights = test::rough_weights(serial);
  const TrainingOutcome expected = serial_outcome(serial, weights);
  for (const plan::Grid& grid : std::vector<plan::Grid>{{.x = 2, .data = 1},
                                                        {.y = 2, .data = 1},
                                                        {.z = 2, .data = 1},
                                                        {.data = 2},
                                                        {.x = 2, .y = 2, .data = 1},
                                                        {.x = 2, .y = 2, .z = 2, .data = 1}}) {
    test::set_grid(setup, grid);
    SCOPED_TRACE(test::name_of(setup.plan));
    const program::Job job = GridRun::compile_for(setup, kernels::cuda::own_target());
    const TrainingOutcome shared = train(setup, job, weights, Passes::shared);
    expect_close(shared, expected);
    if (plan::num_ranks(grid) != 4) continue;
    // In another order of streams, and by way of the host: the same bits.
    for (const Passes passes : {Passes::shared, Passes::staged}) {
      const TrainingOutcome other = train(setup, job, weights, passes, 2);
      EXPECT_EQ(other.losses, shared.losses);
      EXPECT_EQ(other.weights, shared.weights);
    }
  }
}

TEST(GridsOnAFakeGpu, a_pipeline_of_two_stages_trains_as_one_rank_of_the_cpu_does) {
  RunSetup setup = test::gpt_for_grids();
  setup.plan.micro_batch_size = 4;
  const RunSetup serial = test::serial_of(setup, 4);
  const Tensors weights = test::rough_weights(serial);
  const TrainingOutcome expected = serial_outcome(serial, weights);
  const test::TwoStages stages{{.x = 2, .data = 1}, {.y = 2, .data = 1}, 0};
  const program::Job job = compile_stages(setup, stages, kernels::cuda::own_target());
  for (const Passes passes : {Passes::shared, Passes::staged})
    expect_close(train(setup, job, weights, passes), expected);
}

TEST(GridsOnAFakeGpu, a_rank_that_fails_ends_all_with_its_reason) {
  RunSetup setup = test::gpt_for_grids();
  test::set_grid(setup, {.x = 2, .data = 2});
  class Ending : public Feeder {
   public:
    Ending(test::FixedFeeder feeder, bool ends) : feeder_(std::move(feeder)), ends_(ends) {}
    void feed(const Input& input, const Samples& samples, std::span<std::byte> into) override {
      if (ends_ && samples.step == 1) throw UserError(ExitCode::bad_data, "the data end here");
      feeder_.feed(input, samples, into);
    }

   private:
    test::FixedFeeder feeder_;
    bool ends_;
  };
  FakeGpu device;
  {
    SharedGpu gpu(device);
    setup.backend = [&](comm::World& world) {
      return make_shared_gpu_backend(gpu, world, FakeGpu::options());
    };
    GridRun grid(setup, GridRun::compile_for(setup, kernels::cuda::own_target()));
    std::atomic<int> steps{0};
    try {
      grid.run([&](GridRun::RankRun& rank) {
        rank.executor.run(op::ProgramKind::init, test::SmallRun::block(0, 0, 1));
        Ending feeder(test::random_batch(setup), rank.rank == 3);
        for (std::int64_t step = 0; step < 3; ++step) {
          rank.executor.run(op::ProgramKind::train, test::SmallRun::block(step, 1e-3, 1), &feeder);
          ++steps;
        }
      });
      ADD_FAILURE() << "the fault is thrown";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with("rank 3 (data 1, z 0, y 0, x 1) on a fake GPU: instruction "))
          << text;
      EXPECT_TRUE(text.ends_with(": the data end here")) << text;
    }
    EXPECT_LE(steps, 4) << "nobody gets further than the first step";
  }
  EXPECT_EQ(device.live(), 0);
}

/// Wherever the device is lost, all ranks end, with one line that names a rank.
TEST(GridsOnAFakeGpu, a_device_that_is_lost_ends_all_ranks_wherever_that_is) {
  RunSetup setup = test::gpt_for_grids();
  test::set_grid(setup, {.x = 2, .data = 1});
  const program::Job job = GridRun::compile_for(setup, kernels::cuda::own_target());
  int lost = 0;
  for (std::int64_t call = 300; call < 3200; call += 571) {
    FakeGpu device(static_cast<unsigned>(call));
    {
      SharedGpu gpu(device);
      setup.backend = [&](comm::World& world) {
        return make_shared_gpu_backend(gpu, world, FakeGpu::options());
      };
      device.lose_at_call(call);
      GridRun grid(setup, job);
      try {
        grid.run([&](GridRun::RankRun& rank) {
          rank.executor.run(op::ProgramKind::init, test::SmallRun::block(0, 0, 1));
          auto feeder = test::random_batch(setup);
          for (std::int64_t step = 0; step < 2; ++step)
            rank.executor.run(op::ProgramKind::train, test::SmallRun::block(step, 1e-3, 1),
                              &feeder);
        });
      } catch (const UserError& error) {
        ++lost;
        EXPECT_EQ(error.code(), ExitCode::environment);
        const std::string text = error.what();
        EXPECT_TRUE(text.starts_with("rank ")) << text;
        EXPECT_TRUE(text.ends_with(": the GPU was lost")) << text;
      }
    }
    EXPECT_EQ(device.live(), 0) << call;
  }
  EXPECT_GE(lost, 3);
}

}  // namespace
}  // namespace fourfold::run::cuda
