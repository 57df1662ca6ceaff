// scripts/slurm/generic.sbatch on a real Slurm of two nodes, which the test starts on this machine.
// Installs Slurm where it is missing: only with FOURFOLD_LONG.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "support/launched_job.h"
#include "support/long_run.h"
#include "support/step_metrics.h"

namespace fourfold::slurm_test {
namespace {

namespace fs = std::filesystem;
using test::wait_until;

const std::string source_dir = FOURFOLD_SOURCE_DIR;

/// What a command prints.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), n);
  pclose(pipe);
  return text;
}

class Slurm : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_long_run())
      GTEST_SKIP() << "may install Slurm and takes half a minute; set FOURFOLD_LONG";
    // Short, for it becomes part of the names of sockets.
    dir_ = fs::temp_directory_path() / format("fourfold-slurm-{}", getpid());
    fs::create_directories(path("up"));
    up_ = std::make_unique<test::LaunchedJob>(
        std::vector<std::string>{source_dir + "/tests/support/slurm-up", path("slurm")},
        path("up"));
    const auto code = up_->wait(test::hang_s);
    if (code == 77) GTEST_SKIP() << up_->output();
    ASSERT_EQ(code, 0) << up_->output();
    is_up_ = true;
  }
  void TearDown() override {
    if (is_up_) {
      EXPECT_EQ(output_of(source_dir + "/tests/support/slurm-up --down " + path("slurm")), "");
    }
    up_.reset();
    if (!dir_.empty()) fs::remove_all(dir_);
  }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  /// What a client of Slurm prints. Its tasks bear the mark of `up_`, which ends them at last.
  std::string client(const std::string& command) const {
    return output_of(format(". {}/environment && export FOURFOLD_TEST_JOB={} && cd {} && {}",
                            path("slurm"), path("up"), path(""), command));
  }

  /// Submits the script for two nodes with two ranks each; the job's number.
  std::string submit(const std::string& run, const std::string& settings) {
    const std::string said = client(
        format("FOURFOLD={} sbatch --nodes=2 --ntasks-per-node=2 --cpus-per-task=2 --job-name={} "
               "{}/scripts/slurm/generic.sbatch {} --set run.dir={} "
               "--set 'parallel.tensor={{x: 2, z: 2}}' --set train.micro_batch_size=2 {}",
               FOURFOLD_BINARY, run, source_dir, source_dir + "/configs/gpt-tiny.yaml", path(run),
               settings));
    const std::string before = "Submitted batch job ";
    EXPECT_TRUE(said.starts_with(before)) << said;
    return std::string(trim(said.substr(before.size())));
  }
  /// The log, under the name that the script gives it.
  std::string log_of(const std::string& run, const std::string& job) const {
    return test::text_of(format("{}/{}-{}.out", dir_.string(), run, job));
  }
  bool has_ended(const std::string& job) const {
    return trim(client("squeue -h -j " + job)).empty();
  }
  bool has_state(const std::string& job, const std::string& words) const {
    return client("scontrol show job " + job).find(words) != std::string::npos;
  }

  fs::path dir_;
  std::unique_ptr<test::LaunchedJob> up_;
  bool is_up_ = false;
};

TEST_F(Slurm, two_nodes_with_two_ranks_each_train_as_one_rank_does) {
  const std::string settings = "--set precision.compute=fp64 --set model.dropout=0.1";
  const std::string job = submit("a", settings);
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); })) << log_of("a", job);
  const std::string log = log_of("a", job);
  EXPECT_TRUE(has_state(job, "JobState=COMPLETED")) << log;
  EXPECT_NE(log.find("4 ranks on n[1-2]"), std::string::npos) << log;
  EXPECT_NE(log.find("4 processes, 2 on this host"), std::string::npos) << log;
  EXPECT_NE(log.find("ended with 0"), std::string::npos) << log;

  output_of(format("{} train {}/configs/gpt-tiny.yaml --set run.dir={} {}", FOURFOLD_BINARY,
                   source_dir, path("serial"), settings));
  const auto steps = test::steps_of(path("a")), serial = test::steps_of(path("serial"));
  ASSERT_EQ(serial.size(), 20U);
  const double worst = test::expect_equal_steps(steps, serial, 1e-12);
  std::printf("2 nodes x 2 ranks: largest difference to one rank: %.1e\n", worst);
}

TEST_F(Slurm, when_a_rank_dies_the_log_names_it_and_the_job_fails) {
  const std::string job = submit("b", "--set train.steps=100000");
  // sbatch hands its environment on, so that the ranks bear the mark.
  std::map<std::string, pid_t> ranks;
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return file_exists(path("b") + "/metrics.jsonl"); }))
      << log_of("b", job);
  for (const pid_t pid : up_->processes())
    if (const auto rank = test::variable_of(pid, "PMIX_RANK")) ranks[*rank] = pid;
  ASSERT_EQ(ranks.size(), 4U) << log_of("b", job);
  const auto begin = std::chrono::steady_clock::now();
  kill(ranks.at("3"), SIGKILL);
  EXPECT_TRUE(wait_until(10, [&] {
    for (const auto& [rank, pid] : ranks)
      if (!test::text_of(format("/proc/{}/cmdline", pid)).empty()) return false;
    return true;
  }));
  std::printf("until no rank was left: %.2f s\n", test::seconds_since(begin));
  EXPECT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); }));
  const std::string log = log_of("b", job);
  EXPECT_TRUE(has_state(job, "JobState=FAILED")) << log;
  const std::string name =
      format("rank 3 \\(n2, pid {}\\) died; it was last seen after step ", ranks.at("3"));
  EXPECT_TRUE(std::regex_search(log, std::regex("error: " + name))) << log;
  EXPECT_NE(log.find("says how each rank ended"), std::string::npos) << log;
  std::size_t told = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string file = format("{}/status/rank-{}.json", path("b"), rank);
    if (!file_exists(file)) continue;
    const Json json = parse_json(read_file(file), file);
    EXPECT_EQ(json.find("code")->as_integer(), 8) << json.dump();
    EXPECT_TRUE(std::regex_search(json.find("message")->as_string(), std::regex("^" + name)));
    ++told;
  }
  EXPECT_GE(told, 1U);
}

TEST_F(Slurm, a_job_that_is_cancelled_ends_and_accuses_nobody) {
  const std::string job = submit("c", "--set train.steps=100000");
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return file_exists(path("c") + "/metrics.jsonl"); }))
      << log_of("c", job);
  client("scancel " + job);
  EXPECT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); }));
  const std::string log = log_of("c", job);
  EXPECT_TRUE(has_state(job, "JobState=CANCELLED")) << log;
  EXPECT_EQ(log.find("died"), std::string::npos) << log;
}

TEST_F(Slurm, a_job_that_is_to_stop_goes_on_after_the_queue_and_one_that_is_cancelled_does_not) {
  const std::string job = submit("d", "--set train.steps=100000");
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return file_exists(path("d") + "/metrics.jsonl"); }))
      << log_of("d", job);
  client("scancel --signal=USR1 " + job);
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_state(job, "JobState=PENDING"); }))
      << log_of("d", job) << client("scontrol show job " + job);
  EXPECT_TRUE(has_state(job, "Restarts=1"));
  EXPECT_NE(log_of("d", job).find("ended with 75"), std::string::npos) << log_of("d", job);
  // Slurm lets a job that was put back wait for two minutes. Started at once, it may meet what its
  // nodes still clean up of it, and then fails before its script runs.
  const auto put_back = std::chrono::steady_clock::now();
  const auto goes_on = [&] {
    const std::string log = log_of("d", job);
    const bool may_start = std::chrono::steady_clock::now() - put_back > std::chrono::seconds(8);
    if (may_start && log.find(", start 2:") == log.npos)
      client(format("scontrol update jobid={} StartTime=now", job));
    return log.find("going on from step ") != log.npos;
  };
  ASSERT_TRUE(wait_until(test::hang_s, goes_on))
      << log_of("d", job) << client("scontrol show job " + job);
  EXPECT_NE(log_of("d", job).find(", start 2: 4 ranks on"), std::string::npos) << log_of("d", job);
  client("scancel " + job);
  EXPECT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); })) << log_of("d", job);
  EXPECT_TRUE(has_state(job, "JobState=CANCELLED")) << log_of("d", job);
}

}  // namespace
}  // namespace fourfold::slurm_test
