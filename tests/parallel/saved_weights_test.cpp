// The final weights as the ranks of a grid write them together: the files that one rank writes.
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "checkpoint/model_files.h"
#include "checkpoint/save_model.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "unit/checkpoint/temporary_folder.h"

namespace fourfold::saved_weights_test {
namespace {

/// Four heads, so that grids of four and more on x and y need the substitutes too.
test::RunSetup small_model() {
  test::RunSetup setup;
  setup.gpt = {.num_layers = 2,
               .num_attention_heads = 4,
               .hidden_size = 32,
               .ffn_hidden_size = 64,
               .max_position_embeddings = 4,
               .vocab_size = 37,
               .dropout = 0};
  setup.plan = {.global_batch_size = 16, .micro_batch_size = 8, .seq_length = 4};
  setup.plan.compute = DType::f64;
  return setup;
}

using Files = std::map<std::string, std::string>;

/// The files of the initial weights, which are the same bits on every grid.
Files written(const plan::Grid& grid, const checkpoint::ModelFileSpec& spec) {
  test::RunSetup setup = small_model();
  test::set_grid(setup, grid);
  const TemporaryFolder folder;
  test::GridRun(setup).run(
      [&](test::GridRun::RankRun& rank) {
        op::StepBlock block;
        block.seed = 1;
        rank.executor.run(op::ProgramKind::init, block);
        checkpoint::save_model(
            folder.path(), rank.executor.bundle().at(op::ProgramKind::train),
            [&](const program::Buffer& buffer) { return rank.executor.read(buffer); }, &rank.world,
            spec);
      },
      "initial weights are saved, and no step runs");
  Files files;
  for (const std::string& name : checkpoint::list_model_files(folder.path()))
    files[name] = read_file(folder.file(name));
  EXPECT_EQ(folder.num_files(), files.size());
  return files;
}

const std::vector<plan::Grid>& grids() {
  static const std::vector<plan::Grid> all = {
      {.x = 2, .y = 1, .z = 1, .data = 1}, {.x = 1, .y = 2, .z = 1, .data = 1},
      {.x = 1, .y = 1, .z = 2, .data = 1}, {.x = 1, .y = 1, .z = 1, .data = 2},
      {.x = 2, .y = 2, .z = 1, .data = 1}, {.x = 1, .y = 1, .z = 2, .data = 2},
      {.x = 4, .y = 1, .z = 1, .data = 1}, {.x = 1, .y = 4, .z = 1, .data = 1},
      {.x = 1, .y = 1, .z = 1, .data = 4}, {.x = 2, .y = 1, .z = 2, .data = 2},
      {.x = 2, .y = 2, .z = 2, .data = 1}, {.x = 2, .y = 2, .z = 2, .data = 2}};
  return all;
}

TEST(SavedWeights, of_every_grid_are_those_of_one_rank) {
  // Pieces of 200 bytes cut every tensor, most of them within a row. Of these files there are fewer
  // than the ranks of some grids, and more than those of others.
  for (const checkpoint::ModelFileSpec& spec :
       {checkpoint::ModelFileSpec{.metadata = {{"step", "0"}}, .piece_bytes = 200},
        checkpoint::ModelFileSpec{.max_file_bytes = 40000, .piece_bytes = 200}}) {
    const Files serial = written({}, spec);
    EXPECT_EQ(serial.size() > 4, spec.max_file_bytes == 40000) << serial.size();
    for (const plan::Grid& grid : grids())
      EXPECT_TRUE(written(grid, spec) == serial)
          << "x " << grid.x << " y " << grid.y << " z " << grid.z << " data " << grid.data;
  }
}

}  // namespace
}  // namespace fourfold::saved_weights_test
