// scripts/slurm/generic.sbatch on a real Slurm of two nodes, which the test starts on this machine.
// Installs Slurm where it is missing: only with FOURFOLD_LONG.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
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

  /// Submits the script for two nodes with two ranks each; the job's number. `variables` go
  /// to its environment, `options` to sbatch.
  std::string submit(const std::string& run, const std::string& settings,
                     const std::string& variables = "", const std::string& options = "") {
    const std::string said =
        client(format("FOURFOLD={} {} sbatch --nodes=2 --ntasks-per-node=2 --cpus-per-task=2 "
                      "--job-name={} {} {}/scripts/slurm/generic.sbatch {} --set run.dir={} "
                      "--set 'parallel.tensor={{x: 2, z: 2}}' --set train.micro_batch_size=2 {}",
                      FOURFOLD_BINARY, variables, run, options, source_dir,
                      source_dir + "/configs/gpt-tiny.yaml", path(run), settings));
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

/// Runs of 60 steps, each of some tenths of a second, to which something happens.
class SlurmComesBack : public Slurm {
 protected:
  static constexpr std::int64_t steps = 60;
  static std::string settings() {
    return format(
        "--set train.steps={} --set train.global_batch_size=512 "
        "--set precision.compute=fp64 --set model.dropout=0.1 --set eval.interval_steps=7 "
        "--set checkpoint.interval_steps=3 --set run.watchdog_s=5",
        steps);
  }
  void make_whole() {
    const std::string job = submit("whole", settings());
    ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); })) << log_of("whole", job);
    ASSERT_TRUE(has_state(job, "JobState=COMPLETED")) << log_of("whole", job);
  }
  /// Waits until the job has begun so many times, and has then made another step; false where it
  /// ended before.
  bool has_begun(const std::string& run, const std::string& job, std::int64_t starts) const {
    const auto last_start = [&] {
      const std::string log = log_of(run, job);
      const std::string mark =
          starts == 1 ? ": 4 ranks on " : format(", start {}: 4 ranks on ", starts);
      const std::size_t at = log.find(mark);
      return at == log.npos ? std::string() : log.substr(at);
    };
    return wait_until(test::hang_s,
                      [&] {
                        return last_start().find("| loss") != std::string::npos || has_ended(job);
                      }) &&
           !has_ended(job);
  }
  void expect_whole(const std::string& run, const std::string& job) {
    ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); }))
        << log_of(run, job) << client("scontrol show job " + job);
    const std::string log = log_of(run, job);
    EXPECT_TRUE(has_state(job, "JobState=COMPLETED")) << log << client("scontrol show job " + job);
    EXPECT_TRUE(read_file(path(run) + "/model.safetensors") ==
                read_file(path("whole") + "/model.safetensors"))
        << log;
    const auto made = test::steps_of(path(run)), whole = test::steps_of(path("whole"));
    ASSERT_EQ(made.size(), static_cast<std::size_t>(steps)) << log;
    EXPECT_EQ(test::expect_equal_steps(made, whole, 0), 0) << log;
  }
  std::vector<pid_t> ranks_of(const std::string& run) const {
    std::vector<pid_t> found(4, 0);
    for (const pid_t pid : up_->processes()) {
      const std::string line = test::text_of(format("/proc/{}/cmdline", pid));
      const auto rank = test::variable_of(pid, "PMIX_RANK");
      if (rank && line.find("run.dir=" + path(run)) != line.npos &&
          line.starts_with(FOURFOLD_BINARY))
        found.at(static_cast<std::size_t>(std::stoi(*rank))) = pid;
    }
    return found;
  }
  pid_t controller() const {
    return static_cast<pid_t>(std::stoi(test::text_of(path("slurm") + "/slurmctld.pid")));
  }
};

TEST_F(SlurmComesBack, from_whatever_happens_in_one_run_and_no_bit_differs) {
  make_whole();
  const std::string run = "all", job = submit(run, settings(), "", "--partition=low");
  std::string last;
  const std::vector<std::pair<std::string, std::function<void()>>> disturbances = {
      {"USR1 to all ranks", [&] { client("scancel --signal=USR1 " + job); }},
      {"TERM to the shell", [&] { client("scancel --batch --signal=TERM " + job); }},
      {"TERM to all ranks", [&] { client("scancel --signal=TERM " + job); }},
      {"USR2 to one rank", [&] { kill(ranks_of(run).at(2), SIGUSR2); }},
      {"preemption",
       [&] { client("sbatch --partition=high --nodes=3 --output=/dev/null --wrap='sleep 3'"); }},
      {"kill -9 of a rank", [&] { kill(ranks_of(run).at(3), SIGKILL); }},
      {"SIGSTOP of a rank", [&] { kill(ranks_of(run).at(0), SIGSTOP); }},
      {"a controller that does not answer for a minute",
       [&] {
         kill(controller(), SIGSTOP);
         for (const pid_t pid : ranks_of(run)) kill(pid, SIGUSR1);
         std::this_thread::sleep_for(std::chrono::seconds(60));
         kill(controller(), SIGCONT);
       }},
      {"a node down", [&] {
         // One that the job has, and its own shell is not on.
         const std::string nodes = std::string(trim(
             client(format("scontrol show hostnames $(squeue -h -j {} -o %N) | tail -n 1", job))));
         client(format("scontrol update nodename={} state=down reason=test", nodes));
         std::this_thread::sleep_for(std::chrono::seconds(3));
         client(format("scontrol update nodename={} state=resume", nodes));
       }}};
  std::int64_t starts = 1;
  for (const auto& [name, disturb] : disturbances) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(has_begun(run, job, starts)) << log_of(run, job);
    disturb();
    std::printf("start %lld: %s\n", static_cast<long long>(starts), name.c_str());
    ++starts;
  }
  expect_whole(run, job);
  EXPECT_NE(log_of(run, job).find(format(", start {}: ", starts)), std::string::npos)
      << log_of(run, job);
}

TEST_F(SlurmComesBack, after_the_time_limit) {
  make_whole();
  // Slurm may be a minute early: each start gets the signal some seconds after it began.
  const std::string job = submit("wall", settings(), "", "--time=1 --signal=B:USR1@45");
  expect_whole("wall", job);
}

TEST_F(SlurmComesBack, where_the_first_rank_leaves_two_seconds_after_the_others) {
  make_whole();
  for (int i = 0; i < 5; ++i) {
    const std::string run = format("late-{}", i);
    const std::string job = submit(run, settings(), "LATE_RANK=0 LD_PRELOAD=" FOURFOLD_LATE_END);
    ASSERT_TRUE(has_begun(run, job, 1)) << log_of(run, job);
    client("scancel --signal=USR1 " + job);
    ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_state(job, "Restarts=1"); }))
        << log_of(run, job);
    expect_whole(run, job);
  }
}

TEST_F(Slurm, a_job_that_is_cancelled_after_it_was_put_back_stays_away) {
  const std::string job = submit("d", "--set train.steps=100000");
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return file_exists(path("d") + "/metrics.jsonl"); }))
      << log_of("d", job);
  client("scancel --signal=USR1 " + job);
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_state(job, "Restarts=1"); }))
      << log_of("d", job) << client("scontrol show job " + job);
  ASSERT_TRUE(
      wait_until(test::hang_s,
                 [&] { return log_of("d", job).find("going on from step ") != std::string::npos; }))
      << log_of("d", job) << client("scontrol show job " + job);
  client("scancel " + job);
  EXPECT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); })) << log_of("d", job);
  EXPECT_TRUE(has_state(job, "JobState=CANCELLED")) << log_of("d", job);
}

}  // namespace
}  // namespace fourfold::slurm_test
