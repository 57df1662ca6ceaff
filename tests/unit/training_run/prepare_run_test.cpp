// The start of a run: whatever its configuration leaves open, it is compiled once.
#include "training_run/prepare_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/format.h"
#include "compile/passes.h"

namespace fourfold::training_run {
namespace {

namespace fs = std::filesystem;

/// How often each pass has run, by program.
using Counts = std::map<std::string, std::map<op::ProgramKind, std::size_t>>;

class PrepareRun : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  /// The run, as the one process of a job that threads are the ranks of.
  PreparedRun prepared(const std::vector<std::string>& more) {
    TrainArguments arguments;
    arguments.config.sets = {
        "data.format=synthetic", "run.device=cpu", "run.dir=" + (folder_ / "run").string(),
        "model={num_layers: 2, num_attention_heads: 4, hidden_size: 32, vocab_size: 64}",
        "data.seq_length=16"};
    arguments.config.sets.insert(arguments.config.sets.end(), more.begin(), more.end());
    arguments.variable = [this](const std::string& name) -> std::optional<std::string> {
      if (name != "XDG_CACHE_HOME") return std::nullopt;
      return (folder_ / "cache").string();
    };
    comm::OneProcess together(600);
    std::FILE* const file = std::tmpfile();
    screen::Log log(Level::info, {.descriptor = screen::Terminal::none}, file);
    counts_.clear();
    return prepare_run(arguments, together, log,
                       {.observer = [this](const compile::Pass& pass, const compile::Form& form,
                                           const compile::PassContext&) {
                         ++counts_[std::string(pass.name)][compile::kind_of(form)];
                       }});
  }
  /// Every pass has run once for each program of each class of ranks.
  void expect_once(const PreparedRun& run) const {
    EXPECT_EQ(counts_.size(), compile::passes().size());
    for (const auto& [pass, of_kind] : counts_) {
      EXPECT_EQ(of_kind.size(), run.job.bundle().programs.size()) << pass;
      for (const auto& [kind, count] : of_kind)
        EXPECT_EQ(count, run.job.programs.classes.size()) << pass << " of " << op::to_string(kind);
    }
  }

  fs::path folder_ = fs::temp_directory_path() / format("fourfold-prepare-{}", getpid());
  Counts counts_;
};

TEST_F(PrepareRun, whose_kernels_are_found_for_it_is_compiled_once) {
  const PreparedRun run = prepared({"train.steps=1000000000", "sample.tokens=0"});
  EXPECT_EQ(run.job.ranks(), 1);
  EXPECT_FALSE(run.kernels.table.empty());
  EXPECT_EQ(run.job.kernel_table, run.kernels.table);
  expect_once(run);
}

TEST_F(PrepareRun, whose_grid_is_chosen_for_it_is_compiled_once) {
  const PreparedRun run =
      prepared({"parallel.tensor=auto", "memory.activation_checkpointing=auto", "train.steps=2"});
  EXPECT_FALSE(run.grid.empty());
  EXPECT_FALSE(run.job.settled.config().open_axes.are_planned());
  expect_once(run);
}

TEST_F(PrepareRun, of_1024_ranks_is_compiled_once_a_class) {
  const PreparedRun run =
      prepared({"parallel.tensor={x: 2, y: 4, z: 4}", "parallel.data=32",
                "train.global_batch_size=128", "train.steps=1000000000", "sample.tokens=0"});
  EXPECT_EQ(run.job.ranks(), 1024);
  EXPECT_EQ(run.job.programs.classes.size(), 1U);
  EXPECT_FALSE(run.kernels.table.empty());
  expect_once(run);
}

TEST_F(PrepareRun, of_1024_ranks_in_stages_is_compiled_once_a_class) {
  const PreparedRun run = prepared(
      {"parallel.pipeline.stages=2", "parallel.tensor={x: 2, y: 4, z: 4}", "parallel.data=16",
       "train.global_batch_size=256", "train.micro_batch_size=2", "train.steps=2"});
  EXPECT_EQ(run.job.ranks(), 1024);
  EXPECT_GE(run.job.programs.classes.size(), 2U);
  const std::size_t classes = run.job.programs.classes.size();
  for (const auto& [pass, of_kind] : counts_)
    EXPECT_EQ(of_kind.at(op::ProgramKind::train), classes) << pass;
}

}  // namespace
}  // namespace fourfold::training_run
