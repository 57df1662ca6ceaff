// What any grid has saved any other one goes on with: the same state by its digest, and the losses
// of the run that never ended.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "checkpoint/restore.h"
#include "checkpoint/save.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "support/simulated_disk.h"

namespace fourfold::resume_grids_test {
namespace {

constexpr std::int64_t saved_at = 3, steps_after = 10;

/// Four heads, so that grids of four and more on x and y need the substitutes too.
test::RunSetup small_model() {
  test::RunSetup setup;
  setup.gpt = {.num_layers = 2,
               .num_attention_heads = 4,
               .hidden_size = 32,
               .ffn_hidden_size = 64,
               .max_position_embeddings = 4,
               .vocab_size = 37,
               .dropout = 0.1};
  setup.plan = {.global_batch_size = 16, .micro_batch_size = 8, .seq_length = 4};
  setup.plan.compute = DType::f64;
  return setup;
}

/// Six heads in three groups, which no axis divides, with biases and norms of heads, and masked
/// documents.
test::RunSetup small_llama_model() {
  test::RunSetup setup = small_model();
  setup.llama = model::LlamaSpec{.num_layers = 2,
                                 .num_attention_heads = 6,
                                 .num_key_value_heads = 3,
                                 .head_dim = 8,
                                 .hidden_size = 32,
                                 .ffn_hidden_size = 48,
                                 .max_position_embeddings = 4,
                                 .vocab_size = 37,
                                 .attention_bias = model::AttentionBias::qkv,
                                 .head_norm = true};
  setup.masks_documents = setup.restarts_positions = true;
  return setup;
}

/// Two convolutions and two linear layers; seven classes, which most grids pad.
test::RunSetup small_picture_model() {
  test::RunSetup setup;
  setup.vgg = model::VggSpec{.widths = {8, 0, 16, 0},
                             .hidden = {16},
                             .picture = {4, 4, 3},
                             .num_classes = 7,
                             .dropout = 0.1};
  setup.plan = {.global_batch_size = 16, .micro_batch_size = 8, .seq_length = 1};
  setup.plan.compute = DType::f64;
  return setup;
}

/// Two levels, whose averages are state too, and so are the losses of times: after ten steps times
/// are drawn by them.
test::RunSetup small_diffusion_model() {
  test::RunSetup setup = test::diffusion_model();
  setup.unet->channels = 8;
  setup.unet->num_heads = 4;
  setup.unet->norm_groups = 4;
  setup.unet->diffusion.average_decay = 0.75;
  setup.unet->diffusion.steps = 2;
  setup.unet->diffusion.time_sampling = model::TimeSampling::importance;
  setup.plan.global_batch_size = 16;
  return setup;
}

const std::vector<plan::Grid>& layouts() {
  static const std::vector<plan::Grid> all = {
      {.x = 1, .y = 1, .z = 1, .data = 1}, {.x = 2, .y = 1, .z = 1, .data = 1},
      {.x = 1, .y = 2, .z = 1, .data = 1}, {.x = 1, .y = 1, .z = 2, .data = 1},
      {.x = 1, .y = 1, .z = 1, .data = 2}, {.x = 2, .y = 2, .z = 1, .data = 1},
      {.x = 1, .y = 1, .z = 2, .data = 2}, {.x = 4, .y = 1, .z = 1, .data = 1},
      {.x = 1, .y = 1, .z = 1, .data = 4}, {.x = 2, .y = 1, .z = 2, .data = 2},
      {.x = 2, .y = 2, .z = 2, .data = 1}, {.x = 2, .y = 2, .z = 2, .data = 2}};
  return all;
}

class ResumeGrids : public testing::Test {
 protected:
  void set_up(const test::RunSetup& model) {
    for (const plan::Grid& grid : layouts()) {
      setups_.push_back(model);
      test::set_grid(setups_.back(), grid);
      // Optimizer state on data as well, on every other grid that has it.
      setups_.back().plan.shard_states = grid.data > 1 && setups_.size() % 2 == 0;
      runs_.push_back(std::make_unique<test::GridRun>(setups_.back()));
    }
  }

  /// `most`: of the relative difference of a loss.
  /// Every so many layouts save what another goes on from; all with FOURFOLD_LONG.
  void expect_any_to_any(const test::RunSetup& model, double most, std::size_t every = 1);

  double step(test::GridRun::RankRun& rank, std::int64_t number) const {
    test::FixedFeeder feeder = test::random_batch(setups_[0]);
    const auto result =
        rank.executor.run(op::ProgramKind::train, test::SmallRun::block(number, 1e-2, 1), &feeder);
    return result.loss_sum / static_cast<double>(result.valid_count);
  }
  static void init(test::GridRun::RankRun& rank) {
    op::StepBlock block;
    block.seed = 1;
    rank.executor.run(op::ProgramKind::init, block);
  }
  static checkpoint::BufferBytes bytes_of(test::GridRun::RankRun& rank) {
    return [&rank](const program::Buffer& b) { return rank.executor.bytes(b); };
  }

  /// Where times have losses, each has all of them by now.
  static void expect_times_are_drawn_by_loss(test::GridRun::RankRun& rank) {
    for (const program::Buffer& buffer : rank.bundle.at(op::ProgramKind::train).buffers) {
      if (buffer.name != "losses_of_times") continue;
      const auto bytes = rank.executor.bytes(buffer);
      const auto columns = static_cast<std::size_t>(buffer.global[1]);
      for (std::size_t t = 0; t < static_cast<std::size_t>(buffer.global[0]); ++t)
        EXPECT_EQ(reinterpret_cast<const double*>(bytes.data())[t * columns],
                  op::KeepLosses::entries);
    }
  }

  std::vector<double> unbroken() {
    std::vector<double> losses;
    runs_[0]->run([&](test::GridRun::RankRun& rank) {
      init(rank);
      for (std::int64_t i = 0; i < saved_at + steps_after; ++i) {
        const double loss = step(rank, i);
        if (i >= saved_at) losses.push_back(loss);
      }
      expect_times_are_drawn_by_loss(rank);
    });
    return losses;
  }

  void save(std::size_t layout, test::SimulatedDisk& disk) {
    runs_[layout]->run([&](test::GridRun::RankRun& rank) {
      init(rank);
      for (std::int64_t i = 0; i < saved_at; ++i) step(rank, i);
      checkpoint::Store store(disk, "/ckpt");
      if (rank.rank == 0) store.prepare();
      checkpoint::Saver saver(store, &rank.world);
      checkpoint::Manifest facts;
      facts.step = saved_at;
      saver.start(facts, rank.bundle.at(op::ProgramKind::train), bytes_of(rank));
      const auto result = saver.finish();
      EXPECT_EQ(result.error, "");
    });
  }

  /// The largest relative difference of a loss; the digests are compared by restore.
  double go_on(std::size_t layout, test::SimulatedDisk& disk, const std::vector<double>& losses) {
    double worst = 0;
    runs_[layout]->run([&](test::GridRun::RankRun& rank) {
      checkpoint::Store store(disk, "/ckpt");
      checkpoint::restore(store, store.open(saved_at), {}, rank.bundle.at(op::ProgramKind::train),
                          bytes_of(rank), &rank.world);
      for (std::int64_t i = 0; i < steps_after; ++i) {
        const double loss = step(rank, saved_at + i), wanted = losses[static_cast<std::size_t>(i)];
        if (rank.rank == 0) worst = std::max(worst, std::abs(loss - wanted) / std::abs(wanted));
      }
    });
    return worst;
  }

  std::vector<test::RunSetup> setups_;
  std::vector<std::unique_ptr<test::GridRun>> runs_;
};

void ResumeGrids::expect_any_to_any(const test::RunSetup& model, double most, std::size_t every) {
  set_up(model);
  const std::vector<double> losses = unbroken();
  const bool is_long = is_long_run();
  double worst = 0;
  std::size_t pairs = 0;
  for (std::size_t from = 0; from < runs_.size(); from += is_long ? 1 : every) {
    // Each as source and as target; the rest follows, as digests say that all files hold the same.
    test::SimulatedDisk disk;
    save(from, disk);
    for (std::size_t to = 0; to < runs_.size(); ++to) {
      if (!is_long && to != (from + 5) % runs_.size()) continue;
      SCOPED_TRACE(
          format("{} to {}", test::name_of(setups_[from].plan), test::name_of(setups_[to].plan)));
      const double error = go_on(to, disk, losses);
      EXPECT_LE(error, most);
      worst = std::max(worst, error);
      ++pairs;
    }
  }
  std::printf("%zu pairs of layouts; largest difference of a loss: %.1e\n", pairs, worst);
}

TEST_F(ResumeGrids, row_34_from_any_layout_to_any_other) {
  expect_any_to_any(small_model(), 1e-12);
}

TEST_F(ResumeGrids, row_34_of_lion_from_any_layout_to_any_other) {
  test::RunSetup setup = small_model();
  setup.gpt.bias = false;  // the gradient of a key's is rounding, of which Lion takes the sign
  setup.optimizer = graph::OptimizerSpec::of(op::Lion{});
  expect_any_to_any(setup, 1e-12, 4);
}

TEST_F(ResumeGrids, row_34_of_a_llama_from_any_layout_to_any_other) {
  expect_any_to_any(small_llama_model(), 1e-12, 3);
}

TEST_F(ResumeGrids, row_34_of_a_vgg_from_any_layout_to_any_other) {
  // ReLU makes many gradients near zero, by which AdamW divides.
  expect_any_to_any(small_picture_model(), 1e-10, 2);
}

TEST_F(ResumeGrids, row_34_of_a_unet_from_any_layout_to_any_other) {
  expect_any_to_any(small_diffusion_model(), 1e-10, 3);
}

}  // namespace
}  // namespace fourfold::resume_grids_test
