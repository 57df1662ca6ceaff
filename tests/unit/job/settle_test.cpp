// What a run is, from its configuration, its data and its ranks; or all that is wrong with them.
#include "job/settle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "config/changes.h"
#include "config/print.h"
#include "model/model.h"
#include "unit/data/expect_error.h"

namespace fourfold::job {
namespace {

class Settle : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(file_) << std::string(300, 'a') + std::string(300, 'b'); }
  void TearDown() override { std::filesystem::remove(file_); }

  config::Config loaded(std::vector<std::string> sets) const {
    sets.push_back("data.path=" + file_.string());
    sets.push_back("data.seq_length=8");
    return config::load({}, sets);
  }

  std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / format("fourfold-settle-{}.txt", getpid());
};

TEST_F(Settle, takes_the_vocabulary_of_the_data_and_the_ranks_that_there_are) {
  const config::Config config = loaded({"parallel.tensor.z=2", "train.global_batch_size=24"});
  const config::Settled run = settle(config, {.ranks = 6});
  EXPECT_EQ(model::data_facts(run.model()).num_labels, 2);
  EXPECT_EQ(run.plan().grid.data, 3);
  EXPECT_EQ(run.plan().micro_batch_size, 4);
  EXPECT_EQ(run.config().open_axes, config::OpenAxes{});
  EXPECT_TRUE(config.open_axes.data) << "what was loaded stays as it is";
  const config::Config kept = config::load_yaml(config::resolved_yaml(run.config()), "a run");
  EXPECT_EQ(settle(kept, {.ranks = 6}).config(), run.config()) << "settled again";
}

TEST_F(Settle, reads_data_once_where_somebody_has_them) {
  const config::Config config = loaded({});
  const auto data = open_data(config);
  std::filesystem::remove(file_);
  EXPECT_EQ(model::data_facts(settle(config, {.data = data.get()}).model()).num_labels, 2);
  EXPECT_THROW(settle(config, {}), UserError);
}

TEST_F(Settle, tells_what_is_wrong_with_the_model_and_with_the_grid_together) {
  const config::Config small = loaded({"model.vocab_size=1", "parallel.tensor.z=2"});
  const auto data = open_data(small);
  const std::string model =
      user_error(ExitCode::bad_config, [&] { settle(small, {.data = data.get()}); });
  EXPECT_TRUE(model.starts_with("model.vocab_size = 1 is smaller than the 2 tokens of the data"))
      << model;
  const config::Config uneven = loaded({"parallel.tensor.z=2"});
  const std::string grid =
      user_error(ExitCode::does_not_fit, [&] { settle(uneven, {.ranks = 3}); });
  EXPECT_EQ(
      user_error(ExitCode::bad_config, [&] { settle(small, {.data = data.get(), .ranks = 3}); }),
      format("error: {}\nerror: {}", model, grid));
}

TEST_F(Settle, requires_a_grid_that_the_planner_has_chosen) {
  const config::Config open = loaded({"parallel.tensor=auto"});
  EXPECT_THROW(config::Settled{config::with_model(open, model_of(open, nullptr))}, InternalError);
  EXPECT_NO_THROW(settle(config::with_choice(open, {.grid = {.x = 2}}), {.ranks = 2}));
}

}  // namespace
}  // namespace fourfold::job
