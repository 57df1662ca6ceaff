#include "report/read_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "unit/checkpoint/temporary_folder.h"

namespace fourfold::report {
namespace {

constexpr const char* two_steps =
    "{\"step\": 1, \"loss\": 3.5}\n"
    "{\"step\": 2, \"loss\": 3.25}\n";

Run read_one(const std::string& folder) {
  return read_runs(std::array{folder}).at(0);
}

bool has_note(const Run& run, const std::string& words) {
  return std::ranges::any_of(
      run.notes, [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

std::string new_folder(const TemporaryFolder& parent, const std::string& name) {
  std::filesystem::create_directories(parent.file(name));
  return parent.file(name);
}

TEST(ReadRuns, what_is_no_run_is_refused_with_the_reason) {
  const TemporaryFolder folder;
  write_bytes(folder.file("file"), "");
  const std::string empty = new_folder(folder, "empty");
  const std::pair<std::string, const char*> cases[] = {
      {folder.file("none"), "there is no such folder"},
      {folder.file("file"), "is not a folder"},
      {empty, "holds neither metrics.jsonl nor config.resolved.yaml"}};
  for (const auto& [path, reason] : cases) {
    try {
      read_one(path);
      FAIL() << path;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
}

TEST(ReadRuns, a_run_with_metrics_alone_is_read_and_says_what_is_missing) {
  const TemporaryFolder folder;
  const std::string path = new_folder(folder, "first");
  write_bytes(path + "/metrics.jsonl", std::string(two_steps) + "{\"step\": 3, \"lo");
  const report::Run run = read_one(path + "/");
  EXPECT_EQ(run.name, "first");
  EXPECT_EQ(run.metrics.loss.size(), 2U);
  EXPECT_TRUE(has_note(run, "config.resolved.yaml is missing"));
  EXPECT_TRUE(has_note(run, "env.json"));
  EXPECT_TRUE(has_note(run, "torn or hold no metrics, and are left out: 1"));
  EXPECT_TRUE(run.checkpoints.empty());
  EXPECT_TRUE(run.sessions.empty());
}

TEST(ReadRuns, the_environment_is_flat_with_lists_on_one_line) {
  const TemporaryFolder folder;
  const std::string path = new_folder(folder, "run");
  write_bytes(path + "/metrics.jsonl", two_steps);
  write_bytes(path + "/env.json",
              R"({"host": {"cpu": "a CPU", "cores": [0, 1]}, "command": ["a", "b"]})");
  const report::Run run = read_one(path);
  ASSERT_EQ(run.environment.size(), 3U);
  EXPECT_EQ(run.environment[0].name, "host.cpu");
  EXPECT_EQ(run.environment[0].value, "a CPU");
  EXPECT_EQ(run.environment[1].name, "host.cores");
  EXPECT_EQ(run.environment[1].value, "0 1");
  EXPECT_EQ(run.environment[2].value, "a b");
}

TEST(ReadRuns, a_prediction_is_read_and_one_that_cannot_be_becomes_a_note) {
  const TemporaryFolder folder;
  const std::string path = new_folder(folder, "run");
  write_bytes(path + "/metrics.jsonl", two_steps);
  EXPECT_FALSE(read_one(path).predicted.has_value());
  write_bytes(path + "/prediction.json",
              R"({"version": 1, "machine": "m", "last_step": 7, "steps": 6, "traced_steps": 2,
                  "step": {"what": "step", "predicted_s": 0.5, "measured_s": 1},
                  "kinds": [{"what": "gemm", "predicted_s": 0.25, "measured_s": null}, 3],
                  "worst": "none"})");
  const report::Run run = read_one(path);
  ASSERT_TRUE(run.predicted.has_value());
  EXPECT_EQ(run.predicted->machine, "m");
  EXPECT_EQ(run.predicted->last_step, 7);
  EXPECT_EQ(run.predicted->num_steps, 6);
  EXPECT_EQ(run.predicted->num_traced, 2);
  EXPECT_EQ(run.predicted->step.predicted_s, 0.5);
  EXPECT_EQ(run.predicted->step.measured_s, 1);
  ASSERT_EQ(run.predicted->kinds.size(), 2U);
  EXPECT_EQ(run.predicted->kinds[0].what, "gemm");
  EXPECT_EQ(run.predicted->kinds[0].predicted_s, 0.25);
  EXPECT_EQ(run.predicted->kinds[0].measured_s, 0);
  EXPECT_TRUE(run.predicted->worst.empty());
  for (const char* bad : {"[]", "{\"version\": 1}", "{\"version\": 2, \"step\": {}}", "{"}) {
    write_bytes(path + "/prediction.json", bad);
    const report::Run damaged = read_one(path);
    EXPECT_FALSE(damaged.predicted.has_value()) << bad;
    EXPECT_TRUE(has_note(damaged, "prediction.json")) << bad;
  }
}

TEST(ReadRuns, a_damaged_checkpoint_is_listed_with_what_is_wrong) {
  const TemporaryFolder folder;
  const std::string path = new_folder(folder, "run"),
                    checkpoint = new_folder(folder, "run/checkpoints/step-000000002");
  write_bytes(path + "/metrics.jsonl", two_steps);
  write_bytes(checkpoint + "/manifest.json", "{");
  const report::Run run = read_one(path);
  ASSERT_EQ(run.checkpoints.size(), 1U);
  EXPECT_EQ(run.checkpoints[0].step, 2);
  EXPECT_TRUE(run.checkpoints[0].remark.starts_with("damaged: ")) << run.checkpoints[0].remark;
}

TEST(ReadRuns, runs_of_one_name_are_told_apart_by_their_folders) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const char* name : {"a/run", "b/run"}) {
    paths.push_back(new_folder(folder, name));
    write_bytes(paths.back() + "/metrics.jsonl", two_steps);
  }
  const std::vector<report::Run> runs = read_runs(paths);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].name, "run (" + paths[0] + ")");
  EXPECT_EQ(runs[1].name, "run (" + paths[1] + ")");
  EXPECT_EQ(read_runs(std::array{paths[0], paths[0]})[1].name, "run");
}

}  // namespace
}  // namespace fourfold::report
