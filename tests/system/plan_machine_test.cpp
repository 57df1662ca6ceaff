// `fourfold plan --machine`: every grid of a configuration priced on a described machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "machine/cluster_file.h"
#include "machine/known_clusters.h"
#include "support/in_process.h"
#include "support/long_run.h"

namespace fourfold {
namespace {

using test::run_here;

const std::string configs = FOURFOLD_SOURCE_DIR "/configs/";
const std::string tiny = "plan " + configs + "gpt-tiny.yaml --machine perlmutter-40gb ";

void expect_within_100_columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

/// What is wrong is told in one line.
void expect_refused(const std::string& command, int code, const std::string& words) {
  const test::Outcome outcome = run_here(command);
  EXPECT_EQ(outcome.code, code) << outcome.text;
  EXPECT_NE(outcome.text.find(words), std::string::npos) << outcome.text << "\n" << words;
  EXPECT_EQ(std::ranges::count(outcome.text, '\n'), 1) << outcome.text;
}

TEST(PlanMachine, grids_are_ranked_in_a_table_with_the_reason_and_lines_to_paste) {
  const test::Outcome outcome = run_here(tiny + "--ranks 8 --top 3");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  expect_within_100_columns(outcome.output);
  for (const char* words : {"perlmutter-40gb: 8 ranks of 6,144", "\n   1 ", "\n   3 ",
                            "\nWhy: plan 1 takes ", "ZeRO-3", "\nparallel:\n  strategy: axonn\n"})
    EXPECT_NE(outcome.output.find(words), std::string::npos) << outcome.output << words;
  EXPECT_EQ(outcome.output.find("\n   4 "), std::string::npos) << outcome.output;
}

TEST(PlanMachine, the_lines_to_paste_make_a_configuration_for_those_ranks) {
  const std::string output = run_here(tiny + "--ranks 8").output;
  const auto folder =
      std::filesystem::temp_directory_path() / format("fourfold-plan-machine-{}", getpid());
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "grid.yaml").string();
  write_file_atomic(file, output.substr(output.find("parallel:\n")));
  const test::Outcome plan = run_here("plan " + configs + "gpt-tiny.yaml " + file + " --ranks 8");
  EXPECT_EQ(plan.code, 0) << plan.text;
  EXPECT_NE(plan.output.find(" 8 ranks = "), std::string::npos) << plan.output;
  std::filesystem::remove_all(folder);
}

TEST(PlanMachine, json_has_the_same_ranking_in_seconds_and_bytes) {
  const test::Outcome outcome = run_here(tiny + "--nodes 2 --top 4 --simulate 0 --format json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json json = parse_json(outcome.output, "json");
  EXPECT_EQ(json.find("ranks")->as_integer(), 8) << "two nodes of four";
  const auto& plans = json.find("plans")->items();
  ASSERT_EQ(plans.size(), 4U);
  double before = 0;
  for (const Json& plan : plans) {
    const Json& seconds = *plan.find("seconds");
    const double step = seconds.find("step")->as_double();
    EXPECT_GE(step, before);
    before = step;
    double sum = 0;
    for (const char* one :
         {"products", "other_rows", "weights", "gradients", "activations", "waiting_for_stages"})
      sum += seconds.find(one)->as_double();
    sum += seconds.find("slower_beside_traffic")->as_double() - seconds.find("hidden")->as_double();
    EXPECT_NEAR(sum, step, 1e-12);
    EXPECT_GT(plan.find("memory_bytes")->find("all")->as_double(), 0);
    EXPECT_EQ(plan.find("x")->as_integer() * plan.find("y")->as_integer() *
                  plan.find("z")->as_integer() * plan.find("data")->as_integer() *
                  plan.find("stages")->as_integer(),
              8);
  }
}

TEST(PlanMachine, keys_of_pipelines_that_are_set_hold_where_the_grid_of_the_file_does_not_fit) {
  const auto plans = [&](const std::string& sets) {
    const test::Outcome outcome = run_here(
        tiny + "--ranks 8 --top 1000 --simulate 0 --format json --set parallel.data=3 " + sets);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    const Json json = parse_json(outcome.output, "json");
    return json.find("plans")->items();
  };
  const auto has_stages = [](const Json& plan) { return plan.find("stages")->as_integer() > 1; };
  EXPECT_TRUE(std::ranges::any_of(plans(""), has_stages));
  EXPECT_FALSE(std::ranges::any_of(plans("--set parallel.pipeline.stages=1"), has_stages));
  const auto pipelines =
      plans("--set parallel.pipeline.stages=2 --set parallel.pipeline.schedule=gpipe");
  EXPECT_FALSE(pipelines.empty());
  for (const Json& plan : pipelines) {
    EXPECT_EQ(plan.find("stages")->as_integer(), 2);
    EXPECT_EQ(plan.find("schedule")->as_string(), "gpipe");
  }
}

TEST(PlanMachine, two_places_of_the_list_are_compared_by_class) {
  const test::Outcome outcome = run_here(tiny + "--ranks 8 --explain 3 1");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  expect_within_100_columns(outcome.output);
  for (const char* words : {"plan 1     plan 3  difference", "\nweights ", "\nstep, simulated ",
                            "\nmemory, by formula ", "\nWhy: plan 1 takes "})
    EXPECT_NE(outcome.output.find(words), std::string::npos) << outcome.output << words;
  expect_refused(tiny + "--ranks 8 --explain 1 999", 2, "--explain 999: the list has plans 1 to ");
}

/// Attention was measured on one of both machines.
TEST(PlanMachine, a_step_that_is_priced_by_analogy_is_marked_as_a_simulation_marks_it) {
  const std::string command = "plan " + configs +
                              "gpt-tiny.yaml --set precision.compute=bf16 --ranks 2 --top 2 "
                              "--machine ";
  const auto by_analogy = [&](const std::string& machine) {
    const Json json = parse_json(run_here(command + machine + " --format json").output, machine);
    return *json.find("plans")->items()[0].find("simulated")->find("by_analogy");
  };
  const Json none = by_analogy("dgx-h200"), some = by_analogy("dgx-h100");
  EXPECT_TRUE(none.items().empty());
  const std::string measured = run_here(command + "dgx-h200").output;
  EXPECT_EQ(measured.find('~'), std::string::npos) << measured;
  ASSERT_EQ(some.items().size(), 2U);
  for (const Json& one : some.items()) {
    EXPECT_TRUE(one.find("op")->as_string().starts_with("attention"));
    EXPECT_GT(one.find("seconds")->as_double(), 0);
  }
  for (const char* more : {"", " --explain 1 2"}) {
    const std::string text = run_here(command + "dgx-h100" + more).output;
    expect_within_100_columns(text);
    EXPECT_NE(text.find("By analogy, plan 1: "), std::string::npos) << text;
  }
  EXPECT_NE(run_here(command + "dgx-h100").output.find(" ~"), std::string::npos);
}

/// The largest published model, with some of its layers and ranks; PlanPromise has all of it.
TEST(PlanMachine, all_grids_of_all_numbers_of_stages_are_looked_at) {
  const test::Outcome outcome =
      run_here("plan " + configs +
               "paper/gpt-80b.yaml --machine perlmutter-40gb --format json --ranks 8 --top 100000 "
               "--simulate 0 --set model.num_layers=8 --set parallel.pipeline.stages=auto");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json json = parse_json(outcome.output, "json");
  EXPECT_EQ(json.find("grids")->as_integer(), 20 + 10 + 4 + 1) << "of 1, 2, 4 and 8 stages";
  EXPECT_GT(json.find("plans_priced")->as_integer(), 20 + 10 + 4 + 1) << "also meshes of stages";
  EXPECT_GT(json.find("too_large")->as_integer(), 10) << "14 billion parameters in 40 GiB";
}

TEST(PlanMachine, its_best_plans_are_simulated_and_sized_within_a_twentieth) {
  const std::string model = is_long_run() ? "paper/gpt-80b.yaml --ranks 1024 --simulate 10"
                                          : "paper/gpt-5b.yaml --ranks 64 --simulate 4 --set "
                                            "parallel.pipeline.stages=1";
  const test::Outcome outcome =
      run_here("plan " + configs + model + " --machine perlmutter-40gb --format json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json json = parse_json(outcome.output, "json");
  EXPECT_GE(json.find("simulated")->as_integer(), 4);
  double before = 0, lowest = 10, highest = 0;
  for (const Json& plan : json.find("plans")->items()) {
    if (plan.find("simulated")->kind() == Json::Kind::null) continue;
    const Json& simulated = *plan.find("simulated");
    const double step = simulated.find("step_s")->as_double();
    EXPECT_GE(step, before);
    before = step;
    const Json& memory = *plan.find("memory_bytes");
    const double ratio = (memory.find("all")->as_double() + memory.find("room")->as_double()) /
                         simulated.find("memory_bytes")->as_double();
    lowest = std::min(lowest, ratio);
    highest = std::max(highest, ratio);
  }
  std::printf("memory by formula: %.3f to %.3f of the programs'\n", lowest, highest);
  EXPECT_GT(lowest, 0.95);
  EXPECT_LT(highest, 1.05);
}

/// `{x: 2, y: 1, z: 1, data: 4}` of a plan, or of one of its stages.
std::string grid_text(const Json& plan) {
  std::string text;
  for (const char* axis : {"x", "y", "z", "data"})
    text += format("{}{}: {}", text.empty() ? "{" : ", ", axis, plan.find(axis)->as_integer());
  return text + "}";
}

/// The first plan with what the configuration states is what `simulate` says of its lines.
void expect_simulated_alike(const std::string& sets) {
  const Json json =
      parse_json(run_here(tiny + "--ranks 8 --top 1 --format json " + sets).output, "plan");
  const Json& first = json.find("plans")->items()[0];
  const std::int64_t stages = first.find("stages")->as_integer();
  std::string order, meshes, blocks;
  for (const Json& axis : first.find("order")->items())
    order += (order.empty() ? "" : ", ") + axis.as_string();
  std::string pipeline;
  if (stages > 1) {
    for (const Json& stage : first.find("of_stages")->items()) {
      meshes += (meshes.empty() ? "" : ", ") + grid_text(stage);
      blocks += format("{}{}", blocks.empty() ? "" : ", ", stage.find("blocks")->as_integer());
    }
    pipeline = format(
        "'--set=parallel.pipeline={{stages: {}, schedule: {}, ranks_per_host: 4, "
        "blocks: [{}], meshes: [{}]}}'",
        stages, first.find("schedule")->as_string(), blocks, meshes);
  } else {
    const auto size = [&](const char* axis) { return first.find(axis)->as_integer(); };
    pipeline = format("--set 'parallel.tensor={{x: {}, y: {}, z: {}}}' --set parallel.data={}",
                      size("x"), size("y"), size("z"), size("data"));
  }
  const test::Outcome outcome =
      run_here(format("simulate {}gpt-tiny.yaml --machine perlmutter-40gb --format json --set "
                      "'parallel.order=[{}]' {} {}",
                      configs, order, sets, pipeline));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json simulated = parse_json(outcome.output, "simulate");
  const Json& found = *first.find("simulated");
  EXPECT_EQ(found.find("step_s")->as_double(), simulated.find("step_s")->as_double());
  EXPECT_EQ(found.find("memory_bytes")->as_integer(), simulated.find("peak_bytes")->as_integer());
}

TEST(PlanMachine, what_is_simulated_is_what_simulate_says_of_the_lines_to_paste) {
  expect_simulated_alike("");
  expect_simulated_alike("--set parallel.pipeline.stages=2");
}

TEST(PlanMachine, stages_that_are_stated_are_kept_and_stand_in_the_lines_to_paste) {
  const test::Outcome outcome = run_here(tiny + "--ranks 8 --set parallel.pipeline.stages=2");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  expect_within_100_columns(outcome.output);
  for (const char* words : {"plan stages ", "\n   1 2 ", "\nThe stages of plan 1 have ",
                            " waiting ", "\n  pipeline:\n    stages: 2\n    schedule: "})
    EXPECT_NE(outcome.output.find(words), std::string::npos) << outcome.output << words;
  const test::Outcome explained =
      run_here(tiny + "--ranks 8 --set parallel.pipeline.stages=2 --explain 1 2");
  ASSERT_EQ(explained.code, 0) << explained.text;
  EXPECT_NE(explained.output.find("\nwaiting for other stages "), std::string::npos)
      << explained.output;
  EXPECT_NE(explained.output.find("plan 2: 2 stages ("), std::string::npos) << explained.output;
  const test::Outcome one = run_here(tiny + "--ranks 8 --set parallel.pipeline.stages=1");
  EXPECT_NE(one.output.find("\nplan    x "), std::string::npos) << one.output;
}

/// The numbers of stages of all plans.
std::set<std::int64_t> stages_of(const std::string& output) {
  std::set<std::int64_t> stages;
  const Json json = parse_json(output, "json");
  for (const Json& plan : json.find("plans")->items())
    stages.insert(plan.find("stages")->as_integer());
  return stages;
}

TEST(PlanMachine, pipelines_are_looked_at_where_the_number_of_stages_is_not_stated) {
  const std::string all = tiny + "--ranks 8 --simulate 0 --top 1000 --format json ";
  EXPECT_EQ(stages_of(run_here(all).output), (std::set<std::int64_t>{1, 2}))
      << "the model has two blocks";
  EXPECT_EQ(stages_of(run_here(all + "--set parallel.pipeline.stages=1").output),
            (std::set<std::int64_t>{1}));
}

TEST(PlanMachine, pipelines_with_a_grid_for_each_stage_are_told_beside_the_grids) {
  const test::Outcome outcome = run_here(tiny + "--ranks 8 --simulate 0 --format json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json json = parse_json(outcome.output, "json");
  const auto number = [&](const char* key) { return json.find(key)->as_integer(); };
  EXPECT_GT(number("with_own_meshes"), 0);
  EXPECT_LE(number("fitting") - number("with_own_meshes") + number("too_large"), number("grids"));
  const std::string text = run_here(tiny + "--ranks 8 --simulate 0").output;
  EXPECT_NE(text.find(format("{} fit, ", number("fitting") - number("with_own_meshes"))),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("among them those of "), std::string::npos) << text;
}

TEST(PlanMachine, a_pipeline_of_many_micro_batches_is_simulated_with_few) {
  const std::string many = tiny +
                           "--ranks 2 --top 1 --set parallel.pipeline.stages=2 --set "
                           "train.micro_batch_size=1 --set train.global_batch_size=64 ";
  const test::Outcome outcome = run_here(many);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  expect_within_100_columns(outcome.output);
  std::istringstream lines(outcome.output);
  std::string words;
  for (std::string word; lines >> word;) words += word + " ";
  EXPECT_NE(words.find("Of pipelines of many micro-batches as many are followed as show"),
            std::string::npos)
      << outcome.output;
  const Json json = parse_json(run_here(many + "--format json").output, "json");
  const Json& simulated = *json.find("plans")->items()[0].find("simulated");
  EXPECT_LT(simulated.find("followed_micro_batches")->as_integer(), 64 / 2);
}

TEST(PlanMachine, a_pipeline_whose_meshes_have_several_stages_is_refused) {
  expect_refused(tiny +
                     "--ranks 2 --set train.micro_batch_size=1 --set "
                     "'parallel.pipeline={stages: 2, stages_per_mesh: 2, schedule: interleaved}'",
                 2, "the planner gives each mesh one stage, and parallel.pipeline.stages_per_mesh");
}

TEST(PlanMachine, a_training_is_told_in_days_node_hours_and_the_share_of_its_checkpoints) {
  const std::string command = "plan " + configs +
                              "paper/gpt-5b.yaml --ranks 64 --top 1 --simulate 0 --set "
                              "parallel.pipeline.stages=1 --tokens 300B --machine ";
  const test::Outcome outcome = run_here(command + "perlmutter-40gb --format json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json json = parse_json(outcome.output, "json");
  const Json& training = *json.find("training");
  const double steps = training.find("steps")->as_double();
  EXPECT_EQ(steps, 71'526) << "300e9 by 4 Mi";
  const double step = json.find("plans")->items()[0].find("seconds")->find("step")->as_double();
  EXPECT_NEAR(training.find("seconds")->as_double(), steps * step, 1e-6 * steps * step);
  EXPECT_NEAR(training.find("node_hours")->as_double(), steps * step / 3600 * 16, 1e-3);
  // Weights and two moments in fp32.
  EXPECT_NEAR(training.find("checkpoint_bytes")->as_double(), 12 * 5.05e9, 1e8);
  EXPECT_NEAR(training.find("checkpoint_s")->as_double(), 12 * 5.05e9 / 5e12, 1e-4);
  const test::Outcome text = run_here(command + "dgx-h100");
  EXPECT_NE(text.output.find(" tokens are 71,526 steps on plan 1: "), std::string::npos);
  EXPECT_NE(text.output.find("says no rate of its file"), std::string::npos) << text.output;
  expect_within_100_columns(text.output);
  expect_refused(tiny + "--tokens much", 2, "--tokens much: expected a whole number from 1 on");
}

TEST(PlanMachine, what_speed_costs_in_memory_is_drawn_with_letters) {
  const test::Outcome outcome = run_here(tiny + "--ranks 16 --simulate 0");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const auto begin = outcome.output.find("A step's time against a rank's memory");
  ASSERT_NE(begin, std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find('*', begin + 60), std::string::npos) << outcome.output;
}

TEST(PlanMachine, what_cannot_be_planned_is_told_in_a_line_that_says_what_to_do) {
  expect_refused(
      "plan " + configs + "gpt-tiny.yaml --machine perlmuter-40gb", 2,
      "no machine is called 'perlmuter-40gb'; did you mean perlmutter-40gb or perlmutter-80gb?");
  expect_refused(tiny + "--ranks 8000", 5,
                 "machine perlmutter-40gb has room for 6,144 ranks, the job has 8,000; give the");
  expect_refused(tiny + "--nodes 1600", 2, "1,536 nodes of 4 ranks, not 1,600");
  machine::Cluster cluster = machine::load_cluster("workstation");
  cluster.levels_of_node = std::nullopt;
  const std::string file =
      (std::filesystem::temp_directory_path() / format("fourfold-plan-no-node-{}.yaml", getpid()))
          .string();
  write_file_atomic(file, machine::to_yaml(cluster));
  expect_refused("plan " + configs + "gpt-tiny.yaml --machine " + file + " --nodes 2", 2,
                 "does not say what a node is (key node of its file); set --ranks to a number");
  std::filesystem::remove(file);
  expect_refused("plan " + configs + "gpt-tiny.yaml --top 3", 2, "--top needs --machine");
}

TEST(PlanMachine, a_type_that_the_machine_has_no_rate_for_is_refused_with_those_it_has) {
  const auto folder =
      std::filesystem::temp_directory_path() / format("fourfold-plan-rates-{}", getpid());
  std::filesystem::create_directories(folder);
  machine::Cluster cluster = machine::load_cluster("workstation");
  std::erase_if(cluster.device.rates,
                [](const machine::ComputeRate& rate) { return rate.dtype != DType::f32; });
  const std::string file = (folder / "mine.yaml").string();
  write_file_atomic(file, machine::to_yaml(cluster));
  expect_refused(
      "plan " + configs + "gpt-tiny.yaml --set precision.compute=bf16 --machine " + file, 2,
      "machine mine has no rate for products of bf16, only for f32; set precision.compute, or add");
  std::filesystem::remove_all(folder);
}

TEST(PlanMachine, known_machines_are_completed) {
  EXPECT_NE(run_here("completion bash").output.find("perlmutter-40gb"), std::string::npos);
}

TEST(PlanMachine, ranks_that_no_grid_divides_end_with_grids_that_work) {
  const test::Outcome outcome = run_here(tiny + "--ranks 7");
  EXPECT_EQ(outcome.code, 5) << outcome.text;
  EXPECT_NE(outcome.text.find("no grid of 7 ranks divides the model and its batch: "),
            std::string::npos)
      << outcome.text;
  EXPECT_NE(outcome.text.find("nearest grids that work: "), std::string::npos) << outcome.text;
}

TEST(PlanMachine, a_model_that_fits_nowhere_ends_with_its_largest_tensors_and_what_to_change) {
  expect_refused("plan " + configs + "paper/gpt-80b.yaml --machine perlmutter-40gb --ranks 8", 5,
                 "no grid of 8 ranks fits: a rank has 40.0 GiB on perlmutter-40gb, and the least "
                 "that one needs is ");
  const test::Outcome outcome =
      run_here(tiny + "--ranks 2 --set memory.limit=1KiB --set train.micro_batch_size=4");
  EXPECT_EQ(outcome.code, 5) << outcome.text;
  for (const char* words : {"its largest tensors are ", "memory.activation_checkpointing = full",
                            "reduce train.micro_batch_size = 4, or use more ranks"})
    EXPECT_NE(outcome.text.find(words), std::string::npos) << outcome.text << words;
  const test::Outcome searched =
      run_here(tiny +
               "--ranks 2 --set memory.limit=100KiB --set parallel.strategy=auto --set "
               "parallel.pipeline.stages=1");
  EXPECT_EQ(searched.code, 5) << searched.text;
  EXPECT_NE(searched.text.find("no grid of 2 ranks fits, nor does a layout with all 28 parameters "
                               "cut: a rank has 100 KiB on "),
            std::string::npos)
      << searched.text;
}

}  // namespace
}  // namespace fourfold
