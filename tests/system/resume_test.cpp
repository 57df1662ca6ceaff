// A run that ends early and is started again is the run that never ended: the same weights and
// metrics, bit for bit.
#include <gtest/gtest.h>
#include <sys/types.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "support/launched_job.h"
#include "support/pattern.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;
using test::LaunchedJob;
using Words = std::vector<std::string>;

class Resume : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() /
           format("fourfold-resume-{}-{}",
                  testing::UnitTest::GetInstance()->current_test_info()->name(), getpid());
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string run_dir(const std::string& name) const { return (dir_ / name).string(); }

  /// gpt-tiny with dropout and two accumulation steps, 40 steps long.
  Words training(const std::string& name, const Words& sets, const Words& more = {}) const {
    Words words{FOURFOLD_BINARY, "train", FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml"};
    Words all{"train.steps=40",    "run.threads=1",
              "model.dropout=0.1", "train.global_batch_size=8",
              "eval.batches=1",    "eval.interval_steps=10",
              "sample.tokens=0",   "run.dir=" + run_dir(name)};
    all.insert(all.end(), sets.begin(), sets.end());
    for (const std::string& set : all) words.insert(words.end(), {std::string("--set"), set});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// The exit code and what was printed.
  std::pair<int, std::string> run(const Words& words) {
    const fs::path folder = dir_ / format("job-{}", ++jobs_);
    fs::create_directories(folder);
    LaunchedJob job(words, folder.string());
    const int code = job.wait(test::hang_s).value_or(-1);
    return {code, job.output()};
  }

  /// Everything in metrics.jsonl that does not depend on the clock.
  std::string metrics(const std::string& name) const {
    static const test::Pattern timed(
        ",\"(step_time_s|tokens_per_s|tflops|mfu|hfu|exposed_communication_s|memory_bytes|"
        "peak_resident_bytes|val_time_s|compute_time_s|slowest_compute_time_s|slowest_rank)\":"
        "[^,}]*");
    return timed.replaced_in(read_file(run_dir(name) + "/metrics.jsonl"), "");
  }
  std::string weights(const std::string& name) const {
    return read_file(run_dir(name) + "/model.safetensors");
  }
  void expect_equal(const std::string& one, const std::string& other) const {
    EXPECT_EQ(metrics(one), metrics(other));
    EXPECT_TRUE(weights(one) == weights(other)) << "the weights differ";
  }

  /// How many steps the metrics have.
  std::ptrdiff_t steps_of(const std::string& name) const {
    return std::ranges::count(test::text_of(run_dir(name) + "/metrics.jsonl"), '\n');
  }
  /// Goes on for some steps; then it is the run to which nothing has happened.
  void expect_equal_after_as_many_steps(const std::string& name, const Words& sets) {
    const Words stop{"--stop-at", std::to_string(steps_of(name) + 20)};
    auto [code, output] = run(training(name, sets, stop));
    ASSERT_EQ(code, 0) << output;
    EXPECT_NE(output.find("going on from step"), std::string::npos) << output;
    const std::string whole = "whole-" + name;
    std::tie(code, output) = run(training(whole, sets, stop));
    ASSERT_EQ(code, 0) << output;
    expect_equal(whole, name);
  }

  /// Waits until the first step is shown. Files come later: a fast machine may have ended by then.
  static bool has_begun(const LaunchedJob& job) {
    return test::wait_until(test::hang_s,
                            [&] { return job.output().find("| loss") != std::string::npos; });
  }

  fs::path dir_;
  int jobs_ = 0;
};

/// float32 and float64, alone and on several ranks, with one micro-batch and two, by both
/// optimizers.
const std::vector<Words>& settings() {
  static const std::vector<Words> all = {
      {"precision.compute=fp32", "train.micro_batch_size=8"},
      {"precision.compute=fp32", "parallel.tensor={x: 2}", "parallel.data=2",
       "train.micro_batch_size=2", "optimizer.shard=states"},
      {"precision.compute=fp64", "parallel.tensor={y: 2, z: 2}", "train.micro_batch_size=2"},
      {"optimizer.name=sgd", "optimizer.lr=0.05", "precision.compute=fp64",
       "train.micro_batch_size=4"},
  };
  return all;
}

TEST_F(Resume, twenty_steps_and_twenty_more_are_forty) {
  for (std::size_t i = 0; i < settings().size(); ++i) {
    SCOPED_TRACE(i);
    const Words& sets = settings()[i];
    const std::string whole = format("whole-{}", i), parts = format("parts-{}", i);
    auto [code, output] = run(training(whole, sets));
    ASSERT_EQ(code, 0) << output;
    std::tie(code, output) = run(training(parts, sets, {"--stop-at", "20"}));
    ASSERT_EQ(code, 0) << output;
    EXPECT_NE(output.find("step-000000020"), std::string::npos) << output;
    std::tie(code, output) = run(training(parts, sets));
    ASSERT_EQ(code, 0) << output;
    EXPECT_NE(output.find("step 20"), std::string::npos) << output;
    expect_equal(whole, parts);
  }
}

TEST_F(Resume, a_run_that_is_killed_goes_on_from_its_last_checkpoint) {
  const Words sets{"train.steps=100000", "checkpoint.interval_steps=20"};
  const Words again = training("killed", sets);
  for (int kills = 0; kills < 3; ++kills) {
    const fs::path folder = dir_ / format("killed-{}", kills);
    fs::create_directories(folder);
    LaunchedJob job(again, folder.string());
    const auto before = steps_of("killed");
    ASSERT_TRUE(test::wait_until(test::hang_s, [&] {
      return steps_of("killed") != before && fs::exists(run_dir("killed") + "/checkpoints/LATEST");
    })) << job.output();
    for (const pid_t pid : job.processes()) kill(pid, SIGKILL);
    ASSERT_EQ(job.wait(test::hang_s), 128 + SIGKILL);
  }
  expect_equal_after_as_many_steps("killed", sets);
}

TEST_F(Resume, a_run_that_is_asked_to_stop_saves_and_ends_with_75) {
  const Words sets{"train.steps=100000"};
  for (const int signal : {SIGUSR1, SIGTERM}) {
    const std::string name = format("stopped-{}", signal);
    const fs::path folder = dir_ / (name + "-job");
    fs::create_directories(folder);
    LaunchedJob job(training(name, sets), folder.string());
    ASSERT_TRUE(has_begun(job)) << job.output();
    for (const pid_t pid : job.processes()) kill(pid, signal);
    EXPECT_EQ(job.wait(test::hang_s), 75) << job.output();
    EXPECT_NE(job.output().find("checkpoint"), std::string::npos) << job.output();
    expect_equal_after_as_many_steps(name, sets);
  }
}

TEST_F(Resume, ctrl_c_saves_says_so_and_loses_no_step_of_ranks_that_are_threads) {
  for (const Words& grid : {Words{}, Words{"parallel.data=2"}}) {
    const std::string name = format("interrupted-{}", grid.size());
    Words sets{"train.steps=100000", "eval.interval_steps=0"};
    sets.insert(sets.end(), grid.begin(), grid.end());
    const fs::path folder = dir_ / (name + "-job");
    fs::create_directories(folder);
    LaunchedJob job(training(name, sets), folder.string());
    ASSERT_TRUE(has_begun(job)) << job.output();
    for (const pid_t pid : job.processes()) kill(pid, SIGINT);
    EXPECT_EQ(job.wait(test::hang_s), 75) << job.output();
    EXPECT_NE(job.output().find("asked to stop: the run saves and ends"), std::string::npos)
        << job.output();
    const std::string lines = read_file(run_dir(name) + "/metrics.jsonl");
    const auto steps = std::count(lines.begin(), lines.end(), '\n');
    EXPECT_TRUE(fs::exists(run_dir(name) + format("/checkpoints/step-{:09}", steps)))
        << job.output();
  }
}

TEST_F(Resume, a_run_does_not_go_on_with_another_optimizer) {
  auto [code, output] = run(training("run", {"optimizer.name=sgd"}, {"--stop-at", "4"}));
  ASSERT_EQ(code, 0) << output;
  const std::string before = metrics("run");
  std::tie(code, output) = run(training("run", {}));
  EXPECT_EQ(code, 2) << output;
  EXPECT_TRUE(test::Pattern("optimizer.name: sgd in the checkpoint, adamw now[^;]*; the "
                            "checkpoint fits only the former")
                  .is_in(output))
      << output;
  EXPECT_EQ(metrics("run"), before);
  std::tie(code, output) = run(training("run", {"optimizer.name=sgd"}));
  EXPECT_EQ(code, 0) << output;
}

TEST_F(Resume, settings_that_change_what_is_learned_are_refused) {
  auto [code, output] = run(training("run", {}, {"--stop-at", "4"}));
  ASSERT_EQ(code, 0) << output;
  std::tie(code, output) = run(
      training("run", {"model.hidden_size=64", "optimizer.weight_decay=0.2", "log.interval=3"}));
  EXPECT_EQ(code, 2) << output;
  EXPECT_TRUE(test::Pattern("model.hidden_size: 32 in the checkpoint, 64 now .--set #[0-9]+.; the "
                            "checkpoint fits only the former")
                  .is_in(output))
      << output;
  EXPECT_NE(output.find("pass --override optimizer.weight_decay"), std::string::npos) << output;
  EXPECT_EQ(output.find("log.interval"), std::string::npos) << output;
  std::tie(code, output) = run(
      training("run", {"optimizer.weight_decay=0.2"}, {"--override", "optimizer.weight_decay"}));
  EXPECT_EQ(code, 0) << output;
}

TEST_F(Resume, another_grid_goes_on_where_one_ended) {
  auto [code, output] = run(training("one", {"precision.compute=fp64"}, {"--stop-at", "10"}));
  ASSERT_EQ(code, 0) << output;
  for (const char* grid : {"{x: 2, y: 2}", "{z: 2}"}) {
    const std::string name = format("grid-{}", ++jobs_);
    std::tie(code, output) =
        run(training(name, {"precision.compute=fp64", format("parallel.tensor={}", grid)},
                     {"--resume", run_dir("one")}));
    ASSERT_EQ(code, 0) << output;
    EXPECT_NE(output.find("step 10"), std::string::npos) << output;
  }
}

/// Before its first checkpoint.
class KilledEarly : public Resume {
 protected:
  Words command(const Words& sets, const Words& more = {}) const {
    return training("run", sets, more);
  }
  void kill_one() {
    const std::string folder = run_dir("killed");
    fs::create_directories(folder);
    LaunchedJob job(command({"train.steps=100000", "log.tensorboard=true"}), folder);
    const std::string events = run_dir("run") + "/tensorboard";
    ASSERT_TRUE(test::wait_until(test::hang_s, [&] {
      return file_exists(metrics_file()) && fs::exists(events) && !fs::is_empty(events);
    })) << job.output();
    const auto all = job.processes();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(test::text_of(format("/proc/{}/comm", all[0])), "fourfold\n");
    kill(all[0], SIGKILL);
    ASSERT_EQ(job.wait(test::hang_s), 128 + SIGKILL);
  }
  std::string metrics_file() const { return run_dir("run") + "/metrics.jsonl"; }
};

TEST_F(KilledEarly, a_run_begins_anew_and_says_so) {
  kill_one();
  const auto [code, output] = run(command({"log.tensorboard=true"}));
  ASSERT_EQ(code, 0) << output;
  // TensorBoard forgets the steps of the former attempt: one of two files says that it is a start.
  const std::string start_of_session = ":\x02\x08\x01";
  std::size_t files = 0, starts = 0;
  for (const auto& entry : fs::directory_iterator(run_dir("run") + "/tensorboard")) {
    ++files;
    if (read_file(entry.path()).find(start_of_session) != std::string::npos) ++starts;
  }
  EXPECT_EQ(files, 2U);
  EXPECT_EQ(starts, 1U);
  const std::string said =
      format("{}: the run there ended before its first checkpoint; it begins anew", run_dir("run"));
  EXPECT_NE(output.find(said), std::string::npos) << output;
  EXPECT_NE(read_file(run_dir("run") + "/log.rank0.txt").find(said), std::string::npos);
  const std::string unbroken = run(training("unbroken", {})).second;
  EXPECT_EQ(metrics("run"), metrics("unbroken")) << unbroken;
  // Now there are weights, and nobody's command takes them away.
  EXPECT_EQ(run(command({})).first, 11);
}

TEST_F(KilledEarly, a_directory_with_anything_else_in_it_stays_as_it_is) {
  kill_one();
  const std::string before = read_file(metrics_file()), notes = run_dir("run") + "/notes.txt";
  EXPECT_EQ(run(command({}, {"--resume", "never"})).first, 11);
  write_file_atomic(notes, "of value");
  const auto [code, output] = run(command({}));
  EXPECT_EQ(code, 11) << output;
  EXPECT_NE(output.find("--overwrite"), std::string::npos) << output;
  fs::remove(notes);
  write_file_atomic(run_dir("run") + "/model.safetensors", "weights");
  EXPECT_EQ(run(command({})).first, 11);
  EXPECT_EQ(read_file(metrics_file()), before);
}

}  // namespace
}  // namespace fourfold
