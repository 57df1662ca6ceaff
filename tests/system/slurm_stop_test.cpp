// A signal in each phase of a run that scripts/slurm/generic.sbatch started on two nodes: what was
// done is saved, the ranks end with 75, and the job goes back into the queue.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "support/slurm_job.h"
#include "support/step_metrics.h"

namespace fourfold::slurm_stop_test {
namespace {

using test::wait_until;

class SlurmStop : public test::SlurmTest {
 protected:
  /// To one rank, or to all.
  struct Signal {
    int number = SIGTERM;
    std::optional<int> rank = std::nullopt;

    std::string text() const {
      return format("signal {} to {}", number, rank ? format("rank {}", *rank) : "all ranks");
    }
  };
  Signal draw() {
    static constexpr std::array numbers = {SIGTERM, SIGUSR1, SIGUSR2};
    Signal signal{numbers[random_() % numbers.size()]};
    if (random_() % 2 == 0) signal.rank = static_cast<int>(random_() % 4);
    return signal;
  }
  void send_from_outside(const Signal& signal, const std::string& run, const std::string& job) {
    if (signal.rank)
      send(run, *signal.rank, signal.number);
    else
      client(format("scancel --signal={} {}", signal.number, job));
  }
  /// For a rank that sends the signal to itself within the `count`th call of `call` on a file of
  /// weights.
  static std::string variables(const Signal& signal, const std::string& call, int count) {
    return format(
        "LD_PRELOAD={} SIGNAL_AT={} SIGNAL_FILE=safetensors SIGNAL_COUNT={} "
        "SIGNAL_NUMBER={} {}",
        FOURFOLD_SIGNAL_AT_CALL, call, count, signal.number,
        signal.rank ? format("SIGNAL_RANK={}", *signal.rank) : "");
  }
  std::size_t steps_of(const std::string& run) const { return test::steps_of(path(run)).size(); }
  bool wait_for_steps(const std::string& run, const std::string& job, std::size_t steps) const {
    return wait_until(test::hang_s, [&] { return steps_of(run) >= steps || has_ended(job); });
  }
  void sleep_up_to(int ms) {
    std::this_thread::sleep_for(
        std::chrono::microseconds(random_() % static_cast<unsigned>(1000 * ms)));
  }

  /// Waits until the job is back in the queue, takes it out, and looks at what it left: 75 by srun
  /// and by the script, and every step that was made is saved. Whether an evaluation or a text was
  /// cut short.
  bool expect_saved(const std::string& run, const std::string& job) {
    bool is_back = false;
    wait_until(test::hang_s, [&] {
      is_back = has_state(job, "Restarts=1");
      return is_back || has_ended(job);
    });
    client("scancel " + job);
    const std::string log = log_of(run, job);
    EXPECT_TRUE(is_back) << log;
    EXPECT_NE(log.find("ended with 75 after"), log.npos) << log;
    const std::string folder = path(run) + "/checkpoints/";
    if (!file_exists(folder + "LATEST")) {
      EXPECT_EQ(steps_of(run), 0U) << log;
      return false;
    }
    const std::string latest = read_file(folder + "LATEST");
    const std::string name = latest.substr(0, latest.find(' '));
    const bool is_cut =
        read_file(folder + name + "/manifest.json").find("\"untold\"") != std::string::npos;
    const auto told = steps_of(run) + (is_cut ? 1 : 0);
    EXPECT_EQ(name, format("step-{:09}", told)) << log;
    return is_cut;
  }

  std::mt19937 random_{20261129};
};

// Steps of a few milliseconds; an evaluation or a text is as long as many of them.
constexpr const char* short_steps = "--set train.steps=100000 --set eval.interval_steps=0 ";
constexpr const char* evaluations =
    "--set train.steps=100000 --set eval.interval_steps=1 --set eval.batches=2000 ";
const std::string texts = format(
    "{} --set data.format=text --set data.path=fox.txt --set data.tokenizer=char "
    "--set model.vocab_size=32 --set sample.interval=1 --set sample.tokens=3000",
    short_steps);

TEST_F(SlurmStop, in_any_phase_on_any_rank_saves_and_puts_the_job_back) {
  std::string text;
  for (int i = 0; i < 900; ++i) text += format("The quick brown fox {} jumps.\n", i % 7);
  write_file_atomic(path("fox.txt"), text);
  // What is loaded.
  const std::string first = submit("start", "--set train.steps=100000 --stop-at 12");
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_ended(first); }));
  ASSERT_TRUE(file_exists(path("start/checkpoints/LATEST"))) << log_of("start", first);

  std::map<std::string, int> tried, cut;
  std::size_t most_steps = 0;
  double longest_s = 0;
  for (const std::string phase : {"plan", "load", "step", "evaluation", "save", "text"}) {
    for (int i = 0; i < test::tries_of_each(); ++i) {
      const Signal signal = draw();
      const std::string run = format("{}-{}", phase, i);
      SCOPED_TRACE(run + ": " + signal.text());
      std::string settings = short_steps, environment;
      if (phase == "evaluation") settings = evaluations;
      if (phase == "text") settings = texts;
      if (phase == "save") {
        settings += "--set checkpoint.interval_steps=3 ";
        environment = variables(signal, "fsync", 1 + static_cast<int>(random_() % 2));
      }
      if (phase == "load") {
        client(format("cp -r {} {}", path("start"), path(run)));
        environment = variables(signal, "pread", 1 + static_cast<int>(random_() % 2));
      }
      const std::string job = submit(run, settings, environment);
      std::size_t before = phase == "load" ? 12 : 0;
      auto sent = std::chrono::steady_clock::now();
      if (phase == "plan") {
        const std::string outcome = path(format(".fourfold-{}.outcome", job));
        ASSERT_TRUE(wait_until(test::hang_s, [&] { return file_exists(outcome); }))
            << log_of(run, job);
        sleep_up_to(200);
      } else if (phase != "load" && phase != "save") {
        ASSERT_TRUE(wait_for_steps(run, job, 1 + random_() % 3)) << log_of(run, job);
        sleep_up_to(100);
      }
      if (phase != "load" && phase != "save") {
        before = steps_of(run);
        sent = std::chrono::steady_clock::now();
        send_from_outside(signal, run, job);
      }
      cut[phase] += expect_saved(run, job) ? 1 : 0;
      ++tried[phase];
      if (phase != "load" && phase != "save") {
        longest_s = std::max(longest_s, test::seconds_since(sent));
        most_steps = std::max(most_steps, steps_of(run) - before);
      }
      if (HasFailure()) return;
    }
  }
  for (const auto& [phase, count] : tried)
    std::printf("%s: %d of %d saved, %d cut short\n", phase.c_str(), count, count, cut[phase]);
  std::printf("at most %.1f s and %zu steps from the signal until the job was back in the queue\n",
              longest_s, most_steps);
}

TEST_F(SlurmStop, asked_for_twice_ends_the_ranks_at_once) {
  const std::string job =
      submit("twice", "--set train.steps=100000 --set train.global_batch_size=2000");
  ASSERT_TRUE(wait_for_steps("twice", job, 1)) << log_of("twice", job);
  client("scancel --signal=USR1 " + job);
  ASSERT_TRUE(wait_until(test::hang_s, [&] {
    return file_exists(path(format(".fourfold-{}.outcome.heard", job))) || has_ended(job);
  })) << log_of("twice", job);
  // Frozen, so that both come within one step on any machine.
  std::vector<pid_t> ranks = ranks_of("twice");
  std::erase(ranks, 0);
  for (const pid_t rank : ranks) kill(rank, SIGSTOP);
  const std::size_t steps = steps_of("twice");
  std::this_thread::sleep_for(std::chrono::seconds(2));
  client("scancel --signal=USR1 " + job);
  const auto sent = std::chrono::steady_clock::now();
  for (const pid_t rank : ranks) kill(rank, SIGCONT);
  ASSERT_TRUE(wait_until(test::hang_s, [&] {
    return std::ranges::none_of(ranks, [](pid_t rank) { return kill(rank, 0) == 0; });
  })) << log_of("twice", job);
  std::printf("gone %.1f s after the second signal\n", test::seconds_since(sent));
  client("scancel " + job);
  EXPECT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); })) << log_of("twice", job);
  const std::string log = log_of("twice", job);
  EXPECT_EQ(steps_of("twice"), steps) << log;
  EXPECT_EQ(log.find("stopped, as asked"), log.npos) << log;
}

/// A preempted job gets the signal that it asked for, not SIGTERM.
class SlurmPreemptsBySignal : public SlurmStop {
 protected:
  test::LaunchedJob::Environment start_environment() const override {
    return {{"SLURM_UP_PREEMPTS_BY", "signal"}};
  }
};

TEST_F(SlurmPreemptsBySignal, and_the_job_saves_and_goes_on) {
  const std::string run = "preempted",
                    job = submit(run, "--set train.steps=100000", "", "--partition=low");
  ASSERT_TRUE(wait_for_steps(run, job, 3)) << log_of(run, job);
  client("sbatch --partition=high --nodes=3 --output=/dev/null --wrap='sleep 1'");
  ASSERT_TRUE(
      wait_until(test::hang_s,
                 [&] { return log_of(run, job).find("going on from step ") != std::string::npos; }))
      << log_of(run, job) << client("scontrol show job " + job);
  client("scancel " + job);
  EXPECT_TRUE(wait_until(test::hang_s, [&] { return has_ended(job); })) << log_of(run, job);
  const std::string log = log_of(run, job);
  EXPECT_NE(log.find("USR1: the ranks are asked to save and end"), log.npos) << log;
  EXPECT_NE(log.find("ended with 75 after"), log.npos) << log;
}

}  // namespace
}  // namespace fourfold::slurm_stop_test
