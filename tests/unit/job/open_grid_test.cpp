// Grids that are left to the planner: on which machine they are chosen, and what of them is kept.
#include "job/open_grid.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/host_facts.h"
#include "config/config.h"

namespace fourfold::job {
namespace {

config::Config loaded(std::vector<std::string> sets) {
  sets.insert(sets.begin(), {"data.format=synthetic", "model.vocab_size=64", "run.device=cpu"});
  return config::load({}, sets);
}

TEST(OpenGrid, a_grid_goes_to_other_ranks_as_yaml) {
  ChosenGrid chosen;
  chosen.grid = {.x = 2, .y = 1, .z = 8, .data = 3, .order = {"y", "data", "x", "z"}};
  chosen.stages = 4;
  chosen.schedule = pipeline::Schedule::eager_one_f_one_b;
  const config::Config open = loaded({"parallel.tensor=auto", "parallel.pipeline.stages=auto"}),
                       settled = config::with_choice(open, chosen);
  const std::string yaml = config::grid_yaml(settled);
  EXPECT_EQ(yaml,
            "parallel:\n  strategy: axonn\n  tensor:\n    x: 2\n    y: 1\n    z: 8\n  data: 3\n"
            "  order: [y, data, x, z]\n  pipeline:\n    stages: 4\n    schedule: eager-1f1b\n"
            "    blocks: []\n    meshes: []\n");
  EXPECT_EQ(config::with_grid_yaml(open, yaml), settled);
  const config::Config read = config::load_yaml(
      yaml +
          "data: {format: synthetic}\ntrain: {global_batch_size: 96}\n"
          "model: {num_layers: 8, hidden_size: 64, num_attention_heads: 4, vocab_size: 64}\n",
      "as a user writes it");
  EXPECT_EQ(read.plan.grid, chosen.grid) << "the keys of a configuration";
  EXPECT_THROW(config::with_grid_yaml(open, "parallel: {tensor: {x: 0}}"), InternalError);
  EXPECT_THROW(config::with_grid_yaml(open, "parallel: {tensor: {x: 2}}"), InternalError);
}

TEST(OpenGrid, meshes_that_differ_go_to_other_ranks_and_are_kept) {
  ChosenGrid chosen;
  chosen.grid = {.x = 1, .y = 1, .z = 1, .data = 3};
  chosen.stages = 2;
  chosen.meshes = {chosen.grid, {.x = 1, .y = 1, .z = 1, .data = 1}};
  chosen.layers = {5, 2};
  const config::Config open = loaded({"parallel.pipeline.stages=auto"}),
                       settled = config::with_choice(open, chosen);
  EXPECT_EQ(config::with_grid_yaml(open, config::grid_yaml(settled)), settled);
  EXPECT_EQ(settled.plan.pipeline.grids, chosen.meshes);
  EXPECT_EQ(settled.plan.pipeline.layers, chosen.layers);
  const auto kept = kept_grid(open, settled, 4);
  ASSERT_TRUE(kept);
  EXPECT_EQ(config::with_choice(open, *kept), settled);
  EXPECT_FALSE(kept_grid(open, settled, 6)) << "other ranks";
}

TEST(OpenGrid, the_description_of_this_host_has_a_device_a_rank_and_the_hosts_of_the_job) {
  const config::Config config = loaded({"parallel.tensor=auto"});
  const ChosenMachine one = machine_of(config, {.ranks = 4, .of_host = 4});
  EXPECT_EQ(one.cluster.ranks(), 4);
  ASSERT_EQ(one.cluster.levels.size(), 1U);
  EXPECT_LE(4 * one.cluster.device.memory_bytes, static_cast<double>(host_facts().memory_bytes));
  const ChosenMachine three = machine_of(config, {.ranks = 12, .of_host = 4});
  EXPECT_EQ(three.cluster.ranks(), 12);
  ASSERT_EQ(three.cluster.levels.size(), 2U);
  EXPECT_EQ(three.cluster.levels[1].units, 3);
  EXPECT_NE(three.text.find("run.machine names another"), std::string::npos);
}

TEST(OpenGrid, a_machine_that_is_named_is_taken_as_it_is) {
  const ChosenMachine machine =
      machine_of(loaded({"run.machine=dgx-h100"}), {.ranks = 4, .of_host = 4});
  EXPECT_EQ(machine.text, "dgx-h100");
  EXPECT_EQ(machine.cluster.ranks(), 256);
}

TEST(OpenGrid, the_fastest_grid_for_the_ranks_is_chosen_and_sizes_that_are_set_are_kept) {
  const config::Config config = loaded({"parallel.tensor=auto", "parallel.tensor.y=2",
                                        "train.global_batch_size=16", "model.num_layers=2"});
  const ChosenGrid chosen = choose_grid(config, 8, machine_of(config, {.ranks = 8, .of_host = 8}));
  EXPECT_EQ(plan::num_ranks(chosen.grid), 8);
  EXPECT_EQ(chosen.grid.y, 2);
  EXPECT_NE(chosen.text.find(" for 8 ranks on this host, "), std::string::npos) << chosen.text;
  ASSERT_TRUE(chosen.ranking);
  EXPECT_EQ(chosen.ranking->answer.plans.front().spec.grid, chosen.grid);
  EXPECT_EQ(chosen.ranking->answer.simulated,
            std::min(grids_simulated, chosen.ranking->answer.plans.size()));
  const config::Config settled = config::with_choice(config, chosen);
  EXPECT_FALSE(settled.leaves_plan_open());
  EXPECT_EQ(settled.plan.grid, chosen.grid);
}

TEST(OpenGrid, an_order_that_is_set_is_kept) {
  const config::Config config = loaded({"parallel.tensor=auto", "parallel.order=[data, z, y, x]",
                                        "train.global_batch_size=16", "model.num_layers=1"});
  const ChosenGrid chosen = choose_grid(config, 4, machine_of(config, {.ranks = 4, .of_host = 4}));
  EXPECT_EQ(chosen.grid.order, (std::vector<std::string>{"data", "z", "y", "x"}));
}

TEST(OpenGrid, an_earlier_grid_is_kept_where_ranks_and_sizes_are_as_they_were) {
  const config::Config open = loaded({"parallel.tensor=auto", "parallel.tensor.z=2"}),
                       earlier = loaded({"parallel.tensor={x: 2, y: 1, z: 2}", "parallel.data=1"});
  const auto kept = kept_grid(open, earlier, 4);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->grid, earlier.plan.grid);
  EXPECT_FALSE(kept_grid(open, earlier, 8)) << "other ranks";
  EXPECT_FALSE(kept_grid(loaded({"parallel.tensor=auto", "parallel.tensor.z=4"}), earlier, 4))
      << "another z is set";
  EXPECT_FALSE(kept_grid(open, open, 4)) << "it was never settled";
}

TEST(OpenGrid, stages_that_are_open_are_chosen_and_those_that_are_set_are_kept) {
  const std::vector<std::string> model = {"parallel.tensor=auto", "train.global_batch_size=16",
                                          "model.num_layers=4"};
  const auto with = [&](const std::string& stages) {
    std::vector<std::string> sets = model;
    if (!stages.empty()) sets.push_back("parallel.pipeline.stages=" + stages);
    return loaded(sets);
  };
  const auto chosen_of = [](const config::Config& config) {
    return choose_grid(config, 8, machine_of(config, {.ranks = 8, .of_host = 8}));
  };
  EXPECT_EQ(chosen_of(with("")).stages, 1);
  const ChosenGrid two = chosen_of(with("2"));
  EXPECT_EQ(two.stages, 2);
  EXPECT_EQ(plan::num_ranks(two.grid), 4);
  const config::Config open = with("auto");
  const ChosenGrid any = chosen_of(open);
  EXPECT_EQ(plan::num_ranks(any.grid) * any.stages, 8);
  const config::Config settled = config::with_choice(open, any);
  EXPECT_EQ(settled.plan.pipeline.stages, any.stages);
  EXPECT_EQ(settled.plan.pipeline.schedule, any.schedule);
  EXPECT_TRUE(kept_grid(open, settled, 8));
  EXPECT_FALSE(kept_grid(with("3"), settled, 8)) << "another number is set";
}

}  // namespace
}  // namespace fourfold::job
