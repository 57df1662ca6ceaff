// `parallel.tensor: auto` and `parallel.pin` through the binary: what is chosen, said, recorded and
// kept, and what is refused.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "support/command.h"

namespace fourfold {
namespace {

constexpr const char* open_tiny = "configs/gpt-tiny.yaml --set parallel.tensor=auto";

/// A machine whose two devices are joined by next to nothing: whoever sends least is best.
constexpr const char* thin_machine =
    "title: \"Two devices and a wire\"\ndevices: 2\ndevice:\n  name: d\n  memory: 1 GiB\n"
    "  memory_bandwidth: 20 GB/s\n  rates: {f32: {peak: 50 GFLOP/s}}\n"
    "levels:\n  - {name: wire, units: 2, latency: 1 us, link: 1 MB/s, port: 1 MB/s}\n";

class OpenGrid : public FolderTest {
 protected:
  CommandResult train(const std::string& more) const {
    return run_fourfold(
        format("train {} --set train.steps=4 --set eval.interval_steps=0 --set "
               "checkpoint.interval_steps=2 --set run.threads=1 --set run.dir={} "
               "--set run.machine={} {}",
               open_tiny, path("run"), machine(), more));
  }
  std::string machine() const {
    const std::string file = path("thin.yaml");
    write_file_atomic(file, thin_machine);
    return file;
  }
  std::string read(const std::string& name) const {
    return read_file(path("run/" + name), ExitCode::bad_config);
  }
};

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST_F(OpenGrid, training_takes_the_first_plan_says_which_and_records_it) {
  const CommandResult outcome = train("");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(has(outcome.text, "grid: x ")) << outcome.text;
  EXPECT_TRUE(has(outcome.text, " for 2 ranks on thin, ")) << outcome.text;
  const std::string config = read("config.resolved.yaml");
  EXPECT_FALSE(has(config, "x: auto")) << config;
  EXPECT_TRUE(has(config, "    x: ")) << config;
  EXPECT_TRUE(has(read("grids.txt"), "\n   1 ")) << read("grids.txt");
  const CommandResult page = run_fourfold(format("report {0} -o {0}/page.html", path("run")));
  EXPECT_EQ(page.code, 0) << page.text;
  EXPECT_TRUE(has(read("page.html"), "Grids the planner chose among"));
}

TEST_F(OpenGrid, training_takes_the_stages_of_the_first_plan_and_keeps_them) {
  // Two stages send activations alone, and no gradients of weights, over the wire.
  const std::string open = "--set parallel.pipeline.stages=auto --set train.micro_batch_size=1 ";
  const CommandResult outcome = train(open + "--set train.steps=2");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(has(outcome.text, "grid: 2 stages (")) << outcome.text;
  EXPECT_FALSE(has(read("config.resolved.yaml"), "stages: auto"));
  EXPECT_TRUE(has(read("config.resolved.yaml"), "stages: 2"));
  const CommandResult more = train(open);
  ASSERT_EQ(more.code, 0) << more.text;
  EXPECT_TRUE(has(more.text, "kept from the run's earlier start")) << more.text;
}

TEST_F(OpenGrid, a_run_that_goes_on_keeps_its_grid_whatever_would_be_chosen_now) {
  ASSERT_EQ(train("--set train.steps=2").code, 0);
  const std::string grids = read("grids.txt");
  // With links that cost nothing another grid is the fastest.
  const CommandResult again = train("--set train.steps=6 --set run.machine=dgx-h100");
  ASSERT_EQ(again.code, 0) << again.text;
  EXPECT_TRUE(has(again.text, "kept from the run's earlier start")) << again.text;
  EXPECT_TRUE(has(again.text, "going on from step 2 of 6")) << again.text;
  EXPECT_EQ(read("grids.txt"), grids);
}

TEST_F(OpenGrid, other_commands_settle_it_too_and_say_so_beside_what_they_print) {
  for (const char* command : {"plan", "program", "verify"}) {
    const CommandResult outcome =
        run_command(format("{} {} {} --ranks 2 --set run.machine={} 2>{}", FOURFOLD_BINARY, command,
                           open_tiny, machine(), path("said")));
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_FALSE(has(outcome.text, "grid: ")) << outcome.text;
    EXPECT_TRUE(has(read_file(path("said"), ExitCode::bad_config), "grid: x ")) << command;
  }
  const CommandResult simulated =
      run_fourfold(format("simulate {} --ranks 2 --machine {}", open_tiny, machine()));
  EXPECT_TRUE(has(simulated.text, "2 ranks on thin, ")) << simulated.text;
  EXPECT_TRUE(has(simulated.text, "all 2 devices: 2 wire")) << simulated.text;
}

TEST_F(OpenGrid, sizes_that_are_set_are_kept) {
  const CommandResult outcome = run_fourfold(
      "plan configs/gpt-tiny.yaml --ranks 4 --set 'parallel.tensor={x: auto, y: 2, z: 1}'");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(has(outcome.text, " * y 2 * z 1 * ")) << outcome.text;
  EXPECT_TRUE(has(outcome.text, "on this host, taken for one with the rates of ")) << outcome.text;
}

TEST_F(OpenGrid, a_machine_that_is_not_known_is_refused_with_its_place) {
  const CommandResult outcome = run_fourfold(
      "plan configs/gpt-tiny.yaml --set parallel.tensor=auto --set run.machine=perlmuter-40gb");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.text, "run.machine (set by --set #2): no machine is called "))
      << outcome.text;
  EXPECT_TRUE(has(outcome.text, "did you mean perlmutter-40gb")) << outcome.text;
  const CommandResult bench = run_fourfold(
      "bench step configs/gpt-tiny.yaml --set "
      "parallel.tensor=auto");
  EXPECT_EQ(bench.code, 2);
  EXPECT_TRUE(has(bench.text,
                  "auto of parallel.tensor, parallel.pipeline.stages and parallel.strategy is "
                  "settled by train, plan"))
      << bench.text;
}

TEST_F(OpenGrid, a_pinned_run_is_proved_and_a_pin_that_contradicts_the_graph_is_one_line) {
  const std::string grid = "configs/gpt-tiny.yaml --set 'parallel.tensor={x: 2, y: 2, z: 2}' ";
  const CommandResult proved = run_fourfold(
      "verify " + grid + "--set 'parallel.pin={blocks.*.mlp.up.weight: \"[* (x,z), * (y)]\"}'");
  EXPECT_EQ(proved.code, 0) << proved.text;
  const CommandResult printed = run_fourfold(
      "program " + grid + "--set 'parallel.pin={blocks.*.mlp.up.weight: \"[* (x,z), * (y)]\"}'");
  EXPECT_TRUE(has(printed.text, " f32  [32 (x,z), 128 (y)] ")) << "the program has it otherwise";
  const CommandResult none =
      run_fourfold("plan " + grid + "--set 'parallel.pin={wte.wieght: \"[*, *]\"}'");
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(has(none.text, "did you mean wte.weight?")) << none.text;
  const CommandResult ranked = run_fourfold(
      "plan configs/gpt-tiny.yaml --machine perlmutter-40gb --ranks 8 --set "
      "'parallel.pin={wte.wieght: \"[*, *]\"}'");
  EXPECT_EQ(ranked.code, 2) << ranked.text;
  EXPECT_TRUE(has(ranked.text, "did you mean wte.weight?")) << ranked.text;
}

}  // namespace
}  // namespace fourfold
