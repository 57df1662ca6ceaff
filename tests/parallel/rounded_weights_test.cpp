// Rounded copies of weights that are kept from step to step are those that each program would make
// from the weights, whoever has written these: the start of a run, updates, a checkpoint of another
// grid, a file of a model. Programs that keep none round in each step (passes_test.cpp compares
// long runs) and must give the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/load_model.h"
#include "checkpoint/model_files.h"
#include "checkpoint/restore.h"
#include "checkpoint/save.h"
#include "checkpoint/save_model.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "support/simulated_disk.h"
#include "unit/checkpoint/temporary_folder.h"

namespace fourfold {
namespace {

using test::GridRun;
using test::RunSetup;
using test::SmallRun;
using RankRun = GridRun::RankRun;

RunSetup in_bf16(RunSetup setup) {
  setup.plan.compute = DType::bf16;
  setup.reference_kernels = true;
  return setup;
}

RunSetup small_gpt() {
  RunSetup setup;
  setup.gpt = {.num_layers = 1,
               .num_attention_heads = 4,
               .hidden_size = 32,
               .ffn_hidden_size = 64,
               .max_position_embeddings = 4,
               .vocab_size = 37,
               .dropout = 0.1};
  setup.plan = {.global_batch_size = 16, .micro_batch_size = 8, .seq_length = 4};
  return in_bf16(setup);
}

/// Its weights are averaged, and the averages are what a model file has.
RunSetup small_unet() {
  RunSetup setup = test::diffusion_model();
  setup.unet->channels = 8;
  setup.unet->num_heads = 4;
  setup.unet->norm_groups = 4;
  setup.unet->diffusion.average_decay = 0.75;
  setup.plan.global_batch_size = 8;
  return in_bf16(setup);
}

/// A model on the grids that differ in who rounds what: whole weights, shares that are gathered,
/// rows that are updated by one rank each.
std::vector<RunSetup> on_grids(const RunSetup& model) {
  std::vector<RunSetup> setups;
  for (const plan::Grid& grid : {plan::Grid{.data = 1}, plan::Grid{.x = 2, .z = 2, .data = 1},
                                 plan::Grid{.y = 2, .data = 2}}) {
    setups.push_back(model);
    test::set_grid(setups.back(), grid);
    setups.back().plan.shard_states = grid.data > 1;
  }
  return setups;
}

/// What a run shows of the weights that it computes with, and those weights at its end.
struct Shown {
  std::vector<double> losses;
  std::vector<std::vector<std::byte>> outputs;
  std::map<std::string, std::uint64_t> digests;
  bool operator==(const Shown&) const = default;
};

/// One rank of a run.
class Watched {
 public:
  Watched(RankRun& rank, const RunSetup& setup)
      : rank_(rank), feeder_(test::random_batch(setup)), is_gpt_(!setup.is_of_pictures()) {}

  RankRun& rank() { return rank_; }
  void init() { rank_.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1)); }
  void train(std::int64_t step) { EXPECT_EQ(run(step, {}).applied, 1); }
  /// A step that one rank votes against.
  void skip(std::int64_t step) {
    EXPECT_EQ(run(step, {.against = rank_.rank == 0 ? 1 : 0}).applied, 0);
  }
  void evaluate() {
    note(rank_.executor.run(op::ProgramKind::evaluate, SmallRun::block(0, 0, 1), &feeder_));
  }
  /// What is generated from, where the model generates texts.
  void generate() {
    if (!is_gpt_) return;
    op::StepBlock block;
    for (const op::ProgramKind kind : {op::ProgramKind::prefill, op::ProgramKind::decode}) {
      rank_.executor.run(kind, block, &feeder_);
      block.position = 3;
      for (const program::Buffer& buffer : rank_.bundle.at(kind).buffers)
        if (buffer.role == program::BufferRole::output) {
          const auto bytes = rank_.executor.read(buffer);
          shown_.outputs.emplace_back(bytes.data(), bytes.data() + bytes.size());
        }
    }
  }
  Shown end() {
    shown_.digests = GridRun::digests(rank_);
    return shown_;
  }

  checkpoint::BufferBytes writes() {
    return [this](const program::Buffer& buffer) { return rank_.executor.bytes(buffer); };
  }
  checkpoint::BufferReads reads() {
    return [this](const program::Buffer& buffer) { return rank_.executor.read(buffer); };
  }
  const program::Program& train_program() const { return rank_.bundle.at(op::ProgramKind::train); }

 private:
  op::ResultBlock run(std::int64_t step, const op::Votes& votes) {
    op::StepBlock block = SmallRun::block(step, 1e-2, 1);
    block.vote = votes.packed();
    const op::ResultBlock result = rank_.executor.run(op::ProgramKind::train, block, &feeder_);
    note(result);
    return result;
  }
  void note(const op::ResultBlock& result) {
    shown_.losses.push_back(result.loss_sum / static_cast<double>(result.valid_count));
  }

  RankRun& rank_;
  test::FixedFeeder feeder_;
  bool is_gpt_;
  Shown shown_;
};

using WatchedRun = std::function<void(Watched&)>;

/// What rank 0 shows of a course that all ranks take.
Shown shown(const RunSetup& setup, const std::vector<std::string>& without,
            const WatchedRun& course) {
  GridRun grid(setup, GridRun::compile_job(setup, {without, {}}));
  Shown first;
  grid.run([&](RankRun& rank) {
    Watched watched(rank, setup);
    course(watched);
    const Shown own = watched.end();
    if (rank.rank == 0) first = own;
  });
  return first;
}

void expect_same_without_copies(const RunSetup& setup, const WatchedRun& course) {
  SCOPED_TRACE(test::name_of(setup.plan));
  const Shown kept = shown(setup, {}, course);
  EXPECT_FALSE(kept.losses.empty());
  EXPECT_TRUE(kept == shown(setup, {"keep_rounded"}, course));
}

class RoundedWeights : public testing::TestWithParam<const char*> {
 protected:
  static RunSetup model() { return std::string(GetParam()) == "gpt" ? small_gpt() : small_unet(); }
};
INSTANTIATE_TEST_SUITE_P(Of, RoundedWeights, testing::Values("gpt", "unet"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(RoundedWeights, are_those_of_a_run_that_starts_skips_a_step_and_evaluates) {
  for (const RunSetup& setup : on_grids(model()))
    expect_same_without_copies(setup, [](Watched& run) {
      run.init();
      run.evaluate();
      run.train(0);
      run.skip(1);
      run.evaluate();
      run.train(1);
      run.evaluate();
      run.generate();
    });
}

/// Nothing but the checkpoint writes the weights of the run that goes on.
TEST_P(RoundedWeights, are_those_of_a_checkpoint_of_another_grid) {
  const std::vector<RunSetup> setups = on_grids(model());
  for (std::size_t i = 0; i < setups.size(); ++i) {
    SCOPED_TRACE(test::name_of(setups[i].plan));
    test::SimulatedDisk disk;
    shown(setups[i], {}, [&](Watched& run) {
      run.init();
      run.train(0);
      run.train(1);
      checkpoint::Store store(disk, "/ckpt");
      if (run.rank().rank == 0) store.prepare();
      checkpoint::Saver saver(store, &run.rank().world);
      checkpoint::Manifest facts;
      facts.step = 2;
      saver.start(facts, run.train_program(), run.reads());
      EXPECT_EQ(saver.finish().error, "");
    });
    expect_same_without_copies(setups[(i + 1) % setups.size()], [&](Watched& run) {
      checkpoint::Store store(disk, "/ckpt");
      checkpoint::restore(store, store.open(2), {}, run.train_program(), run.writes(),
                          &run.rank().world);
      run.evaluate();
      run.generate();
      run.train(2);
      run.evaluate();
    });
  }
}

/// As training begins from another model, and as evaluation and generation begin.
TEST_P(RoundedWeights, are_those_of_the_file_of_a_model) {
  const TemporaryFolder folder;
  shown(on_grids(model())[0], {}, [&](Watched& run) {
    run.init();
    run.train(0);
    run.train(1);
    checkpoint::save_model(folder.path(), run.train_program(), run.reads());
  });
  for (const bool starts : {false, true})
    for (const RunSetup& setup : on_grids(model()))
      expect_same_without_copies(setup, [&](Watched& run) {
        if (starts) run.init();
        checkpoint::load_model(*checkpoint::open_model(folder.file("model.safetensors")),
                               run.train_program(), run.writes());
        run.evaluate();
        run.generate();
        if (starts) run.train(0);
        run.evaluate();
        run.train(1);
      });
}

}  // namespace
}  // namespace fourfold
