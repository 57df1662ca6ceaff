// scripts/slurm/generic.sbatch on a real Slurm of two nodes, which the test starts on this machine.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "support/launched_job.h"
#include "support/slurm_job.h"
#include "support/step_metrics.h"

namespace fourfold::slurm_test {
namespace {

using test::wait_until;

const std::string source_dir = FOURFOLD_SOURCE_DIR;

using Slurm = test::SlurmTest;

TEST_F(Slurm, two_nodes_with_two_ranks_each_train_as_one_rank_does) {
  const std::string settings = "--set precision.compute=fp64 --set model.dropout=0.1";
  const std::string job = submit("a", settings);
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); })) << log_of("a", job);
  const std::string log = log_of("a", job);
  EXPECT_TRUE(has_state(job, "JobState=COMPLETED")) << log;
  EXPECT_NE(log.find("4 ranks on n[1-2]"), std::string::npos) << log;
  EXPECT_NE(log.find("4 processes, 2 on this host"), std::string::npos) << log;
  EXPECT_NE(log.find("ended with 0"), std::string::npos) << log;

  test::output_of(format("{} train {}/configs/gpt-tiny.yaml --set run.dir={} {}", FOURFOLD_BINARY,
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
  static std::string settings(int samples = 512) {
    return format(
        "--set train.steps={} --set train.global_batch_size={} "
        "--set precision.compute=fp64 --set model.dropout=0.1 --set eval.interval_steps=7 "
        "--set checkpoint.interval_steps=3 --set run.watchdog_s=5",
        steps, samples);
  }
  void make_whole(int samples = 512) {
    const std::string job = submit("whole", settings(samples));
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
};

TEST_F(SlurmComesBack, from_whatever_happens_in_one_run_and_no_bit_differs) {
  make_whole();
  const std::string run = "all", job = submit(run, settings(), "", "--partition=low");
  std::string last;
  const std::vector<std::pair<std::string, std::function<void()>>> disturbances = {
      {"USR1 to all ranks", [&] { client("scancel --signal=USR1 " + job); }},
      {"TERM to the shell", [&] { client("scancel --batch --signal=TERM " + job); }},
      {"TERM to all ranks", [&] { client("scancel --signal=TERM " + job); }},
      {"USR2 to one rank", [&] { send(run, 2, SIGUSR2); }},
      {"preemption",
       [&] { client("sbatch --partition=high --nodes=3 --output=/dev/null --wrap='sleep 3'"); }},
      {"kill -9 of a rank", [&] { send(run, 3, SIGKILL); }},
      {"SIGSTOP of a rank", [&] { send(run, 0, SIGSTOP); }},
      {"a controller that does not answer for a minute",
       [&] {
         kill(controller(), SIGSTOP);
         for (int rank = 0; rank < 4; ++rank) send(run, rank, SIGUSR1);
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
  make_whole(128);
  for (int i = 0; i < test::tries_of_each(); ++i) {
    const std::string run = format("late-{}", i);
    const std::string job = submit(run, settings(128), "LATE_RANK=0 LD_PRELOAD=" FOURFOLD_LATE_END);
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
