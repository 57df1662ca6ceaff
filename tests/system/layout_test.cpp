// `parallel.layout`, `fourfold plan -o` and `parallel.strategy: auto` through the binary: a layout
// is written, read back, edited, searched for, recorded, kept, and refused with its place.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "support/command.h"
#include "support/step_metrics.h"

namespace fourfold {
namespace {

/// Two devices of which each computes little in much time: whoever sends next to nothing is best.
constexpr const char* thin_machine =
    "title: \"Two devices and a wire\"\ndevices: 2\ndevice:\n  name: d\n  memory: 1 GiB\n"
    "  memory_bandwidth: 20 GB/s\n  rates: {f32: {peak: 50 GFLOP/s}, f64: {peak: 25 GFLOP/s}}\n"
    "levels:\n  - {name: wire, units: 2, latency: 1 us, link: 10 MB/s, port: 10 MB/s}\n";

class LayoutFile : public FolderTest {
 protected:
  CommandResult train(const std::string& folder, const std::string& more) const {
    return run_fourfold(
        format("train configs/gpt-tiny.yaml --set train.steps=4 --set eval.interval_steps=0 --set "
               "checkpoint.interval_steps=2 --set run.threads=1 --set precision.compute=fp64 "
               "--set run.dir={} {}",
               path(folder), more));
  }
  std::string machine() const {
    write_file_atomic(path("thin.yaml"), thin_machine);
    return path("thin.yaml");
  }
  std::string read(const std::string& name) const {
    return read_file(path(name), ExitCode::bad_config);
  }
  std::vector<test::StepMetrics> steps(const std::string& folder) const {
    return test::steps_of(path(folder));
  }
  /// The layout of a strategy on two ranks of x, in this file.
  std::string written_layout() const {
    const std::string file = path("layout.txt");
    const CommandResult outcome =
        run_fourfold(format("plan configs/gpt-tiny.yaml --set parallel.tensor.x=2 -o {}", file));
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_TRUE(has(outcome.text, format("layout: {} (use it with --set", file))) << outcome.text;
    return file;
  }
  static bool has(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
  }
};

TEST_F(LayoutFile, that_a_plan_has_written_trains_with_the_same_bits_and_is_recorded) {
  const std::string file = written_layout();
  ASSERT_EQ(train("strategy", "--set parallel.tensor.x=2").code, 0);
  const CommandResult outcome =
      train("given", format("--set parallel.tensor.x=2 --set parallel.layout={}", file));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(has(read("given/config.resolved.yaml"), file));
  test::expect_equal_steps(steps("given"), steps("strategy"), 0);
  EXPECT_EQ(read("given/layout.txt"), read_file(file, ExitCode::bad_config));
  EXPECT_EQ(read("given/model.safetensors"), read("strategy/model.safetensors"));
  // What one rank does with the run does not depend on it.
  ASSERT_EQ(run_command("rm " + file).code, 0);
  const CommandResult text =
      run_fourfold(format("generate {} --tokens 5 --prompt 3", path("given")));
  EXPECT_EQ(text.code, 0) << text.text;
}

TEST_F(LayoutFile, may_be_edited_and_computes_the_same) {
  const std::string file = written_layout();
  std::string text = read_file(file, ExitCode::bad_config);
  text += "op blocks.0.mlp.up: a (x)\n";
  write_file_atomic(file, text);
  ASSERT_EQ(train("strategy", "--set parallel.tensor.x=2").code, 0);
  const CommandResult outcome =
      train("edited", format("--set parallel.tensor.x=2 --set parallel.layout={}", file));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  test::expect_equal_steps(steps("edited"), steps("strategy"), 1e-11);
  EXPECT_NE(read("edited/plan.txt"), read("strategy/plan.txt"));
}

TEST_F(LayoutFile, that_does_not_fit_is_refused_with_its_line) {
  const std::string file = written_layout();
  const auto said = [&](const std::string& options) {
    const CommandResult outcome = run_fourfold(
        format("plan configs/gpt-tiny.yaml --set parallel.layout={} {}", file, options));
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    return outcome.text;
  };
  EXPECT_TRUE(has(said(""),
                  "layout.txt:2:7: error: the layout is of the mesh data 1, z 1, y 1, x "
                  "2, the job has data 1, z 1, y 1, x 1"));
  EXPECT_TRUE(has(said("--set parallel.tensor.x=2 --set model.num_layers=3"),
                  "the layout says nothing of blocks.2.ln1.gain and 11 other weights"));
  EXPECT_TRUE(has(said("--machine two-core-cpu --ranks 1"), "the layout is of the mesh"));
  write_file_atomic(file, read_file(file, ExitCode::bad_config) + "op blocks.0.mlp.up: q (x)\n");
  EXPECT_TRUE(has(said("--set parallel.tensor.x=2"), "has no factor 'q' that may be cut"));
  ASSERT_EQ(run_command("rm " + file).code, 0);
  const std::string gone = said("--set parallel.tensor.x=2");
  EXPECT_TRUE(has(gone, "parallel.layout: there is no file")) << gone;
  EXPECT_TRUE(has(gone, "parallel.layout is set by --set #1")) << gone;
  const CommandResult stages = run_fourfold(
      format("plan configs/gpt-tiny.yaml --set parallel.pipeline.stages=2 -o {}", file));
  EXPECT_EQ(stages.code, 2) << stages.text;
  EXPECT_TRUE(has(stages.text, "a layout is of one grid, and the model is cut into 2 stages"))
      << stages.text;
}

TEST_F(LayoutFile, stands_in_the_list_of_plans_beside_those_of_the_strategy) {
  const std::string file = written_layout();
  const CommandResult outcome = run_fourfold(
      format("plan configs/gpt-tiny.yaml --set parallel.tensor.x=2 --set parallel.layout={} "
             "--machine {} --ranks 2",
             file, machine()));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(has(outcome.text, " given    ")) << outcome.text;
  EXPECT_TRUE(has(outcome.text, "1 plan with a layout of its own")) << outcome.text;
}

class SearchedLayout : public LayoutFile {
 protected:
  std::string options() const {
    return format("--set parallel.strategy=auto --set parallel.tensor.x=2 --set run.machine={} ",
                  machine());
  }
};

TEST_F(SearchedLayout, trains_equal_and_is_kept_when_the_run_goes_on) {
  ASSERT_EQ(train("strategy", "--set parallel.tensor.x=2").code, 0);
  const CommandResult outcome = train("run", options() + "--set train.steps=2");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(has(outcome.text, "layout searched")) << outcome.text;
  const std::string layout = read("run/layout.txt");
  EXPECT_TRUE(has(layout, "fourfold layout 1\nmesh: data 1, z 1, y 1, x 2\n")) << layout;
  EXPECT_TRUE(has(read("run/config.resolved.yaml"), "strategy: auto"));
  // With links that cost nothing another layout is the fastest.
  const CommandResult more = train("run", options() + "--set run.machine=dgx-h100");
  ASSERT_EQ(more.code, 0) << more.text;
  EXPECT_TRUE(has(more.text, "kept from the run's earlier start")) << more.text;
  EXPECT_EQ(read("run/layout.txt"), layout);
  ASSERT_EQ(steps("run").size(), 4U);
  test::expect_equal_steps({steps("run").back()}, {steps("strategy").back()}, 1e-11);
  // The resolved configuration of the run is one of a layout that is given.
  const CommandResult plan = run_fourfold(format("plan {}/config.resolved.yaml", path("run")));
  EXPECT_EQ(plan.code, 0) << plan.text;
}

TEST_F(SearchedLayout, is_one_text_in_five_searches) {
  std::string first;
  for (int i = 0; i < 5; ++i) {
    const std::string file = path("layout.txt");
    const CommandResult outcome =
        run_fourfold(format("plan configs/gpt-tiny.yaml {} -o {}", options(), file));
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    const std::string text = read_file(file, ExitCode::bad_config);
    if (i == 0) first = text;
    EXPECT_EQ(text, first);
  }
}

TEST_F(SearchedLayout, stands_in_the_list_of_plans_and_is_written_from_it) {
  const std::string file = path("layout.txt");
  const CommandResult outcome = run_fourfold(
      format("plan configs/gpt-tiny.yaml --set parallel.strategy=auto --machine {} --ranks 2 "
             "--format json -o {}",
             machine(), file));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(has(outcome.text, "\"layout\":\"searched\"")) << outcome.text;
  EXPECT_TRUE(has(outcome.text, "\"layout\":\"axonn\"")) << outcome.text;
}

TEST_F(SearchedLayout, is_the_answer_to_a_problem_that_may_be_written_and_solved_alone) {
  const std::string file = path("problem.json");
  const std::string plan = format(
      "plan configs/gpt-tiny.yaml --set parallel.pipeline.stages=1 --machine {} --ranks 2 --top 1 ",
      machine());
  const CommandResult outcome = run_fourfold(plan + "--write-problem " + file);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  std::string costs;
  for (const char* solver : {"elimination", "o3"}) {
    const CommandResult solved =
        run_fourfold(format("plan --problem {} --solver {}", file, solver));
    ASSERT_EQ(solved.code, 0) << solved.text;
    const auto place = solved.text.find("cost");
    ASSERT_NE(place, std::string::npos) << solved.text;
    const std::string cost = solved.text.substr(place, solved.text.find('\n', place) - place);
    if (costs.empty()) costs = cost;
    EXPECT_EQ(cost, costs);
  }
  const CommandResult beyond = run_fourfold(plan + "--choose 99 --write-problem " + file);
  EXPECT_EQ(beyond.code, 2);
  EXPECT_TRUE(has(beyond.text, "--choose 99: the list has plans 1 to ")) << beyond.text;
}

TEST_F(SearchedLayout, of_processes_is_the_one_that_the_first_of_them_found) {
  const CommandResult outcome =
      run_command(format("mpirun -np 2 --oversubscribe --bind-to none --allow-run-as-root {} train "
                         "configs/gpt-tiny.yaml "
                         "--set train.steps=2 --set run.threads=1 --set run.dir={} {}",
                         FOURFOLD_BINARY, path("run"), options()));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(has(read("run/layout.txt"), "mesh: data 1, z 1, y 1, x 2")) << outcome.text;
}

TEST_F(SearchedLayout, is_not_what_a_bench_of_steps_looks_for) {
  const CommandResult outcome = run_fourfold("bench step configs/gpt-tiny.yaml " + options());
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_TRUE(has(outcome.text, "as `fourfold plan` prints them")) << outcome.text;
}

}  // namespace
}  // namespace fourfold
