// A first pipeline: two stages on two meshes of different shape train as one rank does.
#include <gtest/gtest.h>

#include <cstdio>
#include <mutex>

#include "base/format.h"
#include "support/compare.h"
#include "support/grid_run.h"
#include "verify/verify_job.h"

namespace fourfold {
namespace {

using test::GridRun;
using test::RunSetup;
using test::SmallRun;
using test::Tensors;

constexpr std::int64_t num_steps = 5;
constexpr double lr = 1e-3;

RunSetup model() {
  RunSetup setup;
  setup.gpt = {.num_layers = 4,
               .num_attention_heads = 8,
               .hidden_size = 32,
               .ffn_hidden_size = 64,
               .max_position_embeddings = 6,
               .vocab_size = 40,
               .dropout = 0.1};
  setup.plan = {.global_batch_size = 24, .micro_batch_size = 8, .seq_length = 6};
  setup.plan.compute = DType::f64;
  return setup;
}

/// What a run of all its stages gives.
struct Outcome {
  std::vector<double> losses, norms;
  Tensors weights;  // after the last step
};

machine::Target target_of(const RunSetup& setup) {
  return setup.reference_kernels ? kernels::cpu::reference_target() : kernels::cpu::target(1);
}

class StagedRun {
 public:
  StagedRun(const RunSetup& setup, const std::vector<plan::Grid>& grids,
            const std::vector<std::int64_t>& last_blocks)
      : setup_(setup) {
    const auto graphs = model::build(
        setup.gpt,
        {setup.plan.micro_batch_size, setup.plan.seq_length, setup.plan.global_batch_size},
        setup.optimizer);
    auto planned = plan::plan_stages(graphs.at("train"), setup.plan, grids, last_blocks);
    job_ = compile::compile(std::get<0>(planned), target_of(setup));
    for (std::size_t rank = 0; rank < job_.ranks.size(); ++rank)
      bundles_.push_back(program::bundle_of(job_, Rank(rank)));
    const auto faults = verify::verify(job_);
    for (const auto& fault : faults) ADD_FAILURE() << fault.rule << ": " << fault.message;
    require(faults.empty(), "only sound programs are run");
  }

  const std::vector<program::Bundle>& bundles() const { return bundles_; }

  Outcome train(const Tensors& weights) {
    comm::ThreadJob job(bundles_.size());
    Outcome outcome;
    std::mutex mutex;
    job.run([&](comm::World& world) {
      const program::Bundle& bundle = bundles_[world.rank().index()];
      run::CpuBackend backend({.threads = 1, .world = &world});
      run::Executor executor(bundle, backend);
      GridRun::RankRun rank{world.rank().index(), world, bundle, executor, backend};
      executor.run("init", SmallRun::block(0, 0, 1));
      const auto each_parameter = [&](const auto& visit) {
        for (const program::Buffer& buffer : bundle.at("train").buffers)
          if (buffer.role == program::BufferRole::parameter) visit(buffer);
      };
      each_parameter([&](const auto& b) { GridRun::scatter(rank, b, weights.at(b.name)); });
      auto feeder = test::random_batch(setup_);
      for (std::int64_t step = 0; step < num_steps; ++step) {
        op::StepBlock block = SmallRun::block(step, lr, 1);
        const bool is_second = rank.rank == 1;
        block.vote = op::Votes{.stop = is_second ? 1 : 0, .written = 1}.packed();
        const auto result = executor.run("train", block, &feeder);
        const std::lock_guard lock(mutex);
        EXPECT_EQ(result.applied, 1);
        const auto ranks = static_cast<std::int64_t>(bundles_.size());
        EXPECT_EQ(op::Votes::of(result.votes), (op::Votes{.stop = 1, .written = ranks}));
        if (rank.rank == 0) {
          outcome.losses.push_back(result.loss_sum / static_cast<double>(result.valid_count));
          outcome.norms.push_back(result.grad_norm);
        }
      }
      const std::lock_guard lock(mutex);
      each_parameter([&](const auto& b) { collect_.collect(rank, b, b.name, outcome.weights); });
    });
    return outcome;
  }

 private:
  RunSetup setup_;
  GridRun collect_{RunSetup{}};
  program::Job job_;
  std::vector<program::Bundle> bundles_;
};

void expect_equal_to_serial(const std::vector<plan::Grid>& grids,
                            const std::vector<std::int64_t>& last_blocks) {
  const RunSetup setup = model();
  SmallRun serial(setup);
  serial.init(true);
  Tensors weights;
  for (const program::Buffer* b : serial.parameters()) weights[b->name] = serial.doubles(*b);
  const Outcome got = StagedRun(setup, grids, last_blocks).train(weights);

  double worst = 0;
  auto feeder = test::random_batch(setup);
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const auto result = serial.step(feeder, step, lr);
    const double loss = result.loss_sum / static_cast<double>(result.valid_count);
    const auto i = static_cast<std::size_t>(step);
    const double error = std::abs(got.losses[i] - loss) / loss,
                 norm_error = std::abs(got.norms[i] - result.grad_norm) / result.grad_norm;
    EXPECT_LE(error, 1e-12) << "step " << step + 1;
    EXPECT_LE(norm_error, 1e-12) << "step " << step + 1;
    worst = std::max({worst, error, norm_error});
  }
  for (const program::Buffer* b : serial.parameters()) {
    const auto expected = serial.doubles(*b);
    const test::KeyBias keys = test::key_bias(b->name, expected.size());
    ASSERT_TRUE(got.weights.contains(b->name)) << b->name;
    const double error = test::relative_error(test::without(got.weights.at(b->name), keys),
                                              test::without(expected, keys), 1e-6);
    EXPECT_LE(error, 1e-12) << b->name;
    worst = std::max(worst, error);
  }
  std::printf("%zu stages: worst error of losses, norms and weights over %d steps %.1e\n",
              grids.size(), static_cast<int>(num_steps), worst);
}

TEST(Stages, on_two_meshes_of_different_shape_equal_the_serial_run) {
  expect_equal_to_serial({{.x = 2, .data = 1}, {.y = 2, .data = 2}}, {1});
  expect_equal_to_serial({{.y = 2, .z = 2, .data = 1}, {.x = 2, .data = 1}}, {0});
}

/// Weights in float32, also those of a table that a stage receives; each stage rounds its own copy.
TEST(Stages, in_bf16_learn_as_the_serial_run_does) {
  RunSetup setup = model();
  setup.plan.compute = DType::bf16;
  setup.reference_kernels = true;
  SmallRun serial(setup);
  serial.init(true);
  Tensors weights;
  for (const program::Buffer* b : serial.parameters()) weights[b->name] = serial.doubles(*b);
  const Outcome got = StagedRun(setup, {{.data = 1}, {.x = 1, .data = 2}}, {1}).train(weights);
  auto feeder = test::random_batch(setup);
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const auto result = serial.step(feeder, step, lr);
    const double loss = result.loss_sum / static_cast<double>(result.valid_count);
    // Some 50 roundings to bf16 lie between a token and its loss.
    EXPECT_NEAR(got.losses[static_cast<std::size_t>(step)], loss, 8 * 0x1p-8 * loss);
  }
}

}  // namespace
}  // namespace fourfold
