// What is left of a job when one of its ranks dies, hangs or fails: the program under mpirun, with
// ranks killed and stopped at random instants. (Ranks that are threads die together.)
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/random.h"
#include "support/launched_job.h"
#include "support/long_run.h"
#include "support/pattern.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;
using test::LaunchedJob;
using test::wait_until;

constexpr int num_ranks = 4;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto place = text.find(part); place != std::string::npos; place = text.find(part, place + 1))
    ++found;
  return found;
}

class Failure : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::temp_directory_path() / format("fourfold-{}-{}", info->name(), getpid());
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  /// A folder for one more job.
  std::string fresh_folder() {
    const fs::path folder = dir_ / std::to_string(++jobs_);
    fs::create_directories(folder);
    return folder.string();
  }

  /// gpt-tiny with its run directory in `folder`.
  static std::vector<std::string> training(const std::string& folder,
                                           const std::vector<std::string>& settings) {
    std::vector<std::string> words{FOURFOLD_BINARY, "train",
                                   FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml", "--set",
                                   format("run.dir={}/run", folder)};
    for (const std::string& setting : settings)
      words.insert(words.end(), {std::string("--set"), setting});
    return words;
  }
  /// On four ranks, with two groups of two for each of two axes; `before` stands before the
  /// program.
  static std::vector<std::string> four_ranks(const std::string& folder,
                                             std::vector<std::string> settings,
                                             const std::vector<std::string>& before = {}) {
    settings.insert(settings.end(), {"parallel.tensor={x: 2, z: 2}", "train.micro_batch_size=2"});
    std::vector<std::string> words = test::mpirun(num_ranks);
    words.insert(words.end(), before.begin(), before.end());
    const std::vector<std::string> program = training(folder, settings);
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }

  static std::string status_file(const std::string& folder, int rank) {
    return format("{}/run/status/rank-{}.json", folder, rank);
  }

  fs::path dir_;
  int jobs_ = 0;
};

/// How one rank left, as its file says.
struct Status {
  std::int64_t code = 0;
  std::string message;
};
std::optional<Status> read_status(const std::string& path) {
  if (!file_exists(path)) return std::nullopt;
  const Json json = parse_json(read_file(path), path);
  return Status{json.find("code")->as_integer(), json.find("message")->as_string()};
}

/// What befalls a rank, and what the others should make of it.
struct Blow {
  const char* name;
  int signal;
  std::int64_t code;  // in the statuses
  int launcher_code;  // of mpirun
  const char* says;   // of the rank
  double within_s;    // until no rank is left
  const char* watchdog_s;
};
/// How long to wait for mpirun once its ranks are gone. It may never end: Open MPI 4.1.4 can lock
/// itself out in PMIx_server_finalize when a rank dies while it connects.
constexpr double launcher_s = 5;

constexpr Blow killed{"SIGKILL", SIGKILL, 8, 128 + SIGKILL, "died; it was last seen ", 10, "0"};
// The watchdog's two seconds, and then as long as after a death.
constexpr Blow stopped{"SIGSTOP", SIGSTOP, 9, 9, "it was last seen ", 12, "2"};

class Blows : public Failure {
 protected:
  void SetUp() override {
    Failure::SetUp();
    if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  }

  /// Strikes one rank of a job `after_s` seconds into its training.
  void strike(const Blow& blow, int victim, double after_s,
              const std::vector<std::string>& before = {}) {
    SCOPED_TRACE(format("{} of rank {} after {} s", blow.name, victim, after_s));
    const std::string folder = fresh_folder();
    LaunchedJob job(
        four_ranks(folder, {"train.steps=100000", format("run.watchdog_s={}", blow.watchdog_s)},
                   before),
        folder);
    ASSERT_TRUE(wait_until(test::hang_s, [&] {
      return !test::text_of(folder + "/run/metrics.jsonl").empty() || job.wait(0);
    })) << job.output();
    std::this_thread::sleep_for(std::chrono::duration<double>(after_s));
    const std::map<int, pid_t> ranks = job.ranks();
    ASSERT_EQ(ranks.size(), std::size_t{num_ranks}) << job.output();

    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(kill(ranks.at(victim), blow.signal), 0);
    EXPECT_TRUE(wait_until(blow.within_s, [&] { return job.ranks().empty(); }))
        << job.ranks().size() << " ranks are left\n"
        << job.output();
    seconds_.push_back(test::seconds_since(begin));

    EXPECT_EQ(job.wait(launcher_s).value_or(blow.launcher_code), blow.launcher_code)
        << job.output();
    const std::string name = format("^rank {} \\([^ ,]+, pid {}\\) ", victim, ranks.at(victim));
    expect_statuses(blow, folder, victim, name);
    const std::string output = job.output();
    EXPECT_TRUE(test::Pattern("error: " + name.substr(1) + "[^\n]*" + blow.says + "after step ")
                    .is_in(output))
        << output;
    EXPECT_EQ(count(output, "error: "), 1U) << output;
  }

  /// No rank accuses another, or ends with another code.
  void expect_statuses(const Blow& blow, const std::string& folder, int victim,
                       const std::string& name) {
    static const test::Pattern instruction(": instruction [0-9]+ \\([a-z]");
    std::size_t told = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      const auto status = read_status(status_file(folder, rank));
      if (!status) continue;
      if (rank != victim) ++told;
      EXPECT_EQ(status->code, blow.code) << "rank " << rank << ": " << status->message;
      EXPECT_TRUE(
          test::Pattern(name + "(.*)" + blow.says + "after step [0-9]+, .").is_in(status->message))
          << "rank " << rank << ": " << status->message;
      const std::string seen = status->message.substr(0, status->message.find("This is"));
      const bool named = instruction.is_in(seen);
      EXPECT_TRUE(named || seen.find("outside of programs") != std::string::npos ||
                  seen.find("between instructions") != std::string::npos)
          << "rank " << rank << ": " << status->message;
      if (rank != victim && named) ++named_;
    }
    EXPECT_GE(told, 1U) << "no survivor has left a status";
    told_ += told;
  }

  void strike_all(const Blow& blow, std::uint64_t seed) {
    constexpr std::uint64_t instants = 5;
    const Random random(seed, random_stream("test.instants"));
    for (int rank = 0; rank < num_ranks; ++rank)
      for (std::uint64_t i = 0; i < instants; ++i) {
        const std::uint64_t element = static_cast<std::uint64_t>(rank) * instants + i;
        strike(blow, rank, 1e-3 * static_cast<double>(random.below(1500, element, 0)));
      }
  }

  void report(const Blow& blow) {
    if (seconds_.empty()) return;
    std::sort(seconds_.begin(), seconds_.end());
    const std::size_t n = seconds_.size();
    const double median = (seconds_[(n - 1) / 2] + seconds_[n / 2]) / 2;
    std::printf(
        "%s: %zu rounds; until no rank is left: min %.2f s, median %.2f s, max %.2f s; "
        "%zu of %zu survivors left a status, %zu name an instruction\n",
        blow.name, n, seconds_.front(), median, seconds_.back(), told_, n * (num_ranks - 1),
        named_);
    // A state is told four times a second, and some fall between steps. All survivors of a round
    // speak of the same state, so that a share is judged over many rounds only.
    if (n >= 10) {
      EXPECT_GE(2 * named_, told_);
    }
  }

  std::vector<double> seconds_;
  std::size_t told_ = 0, named_ = 0;  // of survivors: with a status; whose status has where
};

TEST_F(Blows, when_a_rank_is_killed_the_others_say_who_and_where_and_all_end) {
  strike(killed, 2, 0.4);
  report(killed);
}

TEST_F(Blows, when_a_rank_is_stopped_it_is_named_and_all_end) {
  strike(stopped, 1, 0.7);
  report(stopped);
}

TEST_F(Blows, however_long_the_others_take_to_end_the_launcher_hears_of_them_first) {
  strike(stopped, 1, 0.2,
         {"env", format("LD_PRELOAD={}", FOURFOLD_SLOW_STATUS),
          format("ASAN_OPTIONS={}:detect_leaks=0", test::preload_allowed())});
}

TEST_F(Blows, each_rank_may_be_killed_at_any_instant) {
  if (!is_long_run()) GTEST_SKIP() << "takes minutes; set FOURFOLD_LONG";
  strike_all(killed, 1);
  report(killed);
}

TEST_F(Blows, each_rank_may_be_stopped_at_any_instant) {
  if (!is_long_run()) GTEST_SKIP() << "takes minutes; set FOURFOLD_LONG";
  strike_all(stopped, 2);
  report(stopped);
}

TEST_F(Blows, a_job_that_dies_before_its_first_step_leaves_no_rank) {
  const std::string folder = fresh_folder();
  LaunchedJob job(four_ranks(folder, {"train.steps=100000"}), folder);
  // A process that is just starting its program has no environment to be known by.
  std::map<int, pid_t> ranks;
  ASSERT_TRUE(wait_until(test::hang_s, [&] {
    ranks = job.ranks();
    return ranks.size() == num_ranks || job.wait(0);
  }));
  ASSERT_EQ(ranks.size(), std::size_t{num_ranks}) << job.output();
  kill(ranks.at(3), SIGKILL);
  EXPECT_TRUE(wait_until(10, [&] { return job.ranks().empty(); })) << job.output();
}

TEST_F(Blows, numbers_that_are_not_finite_end_all_ranks_with_7_and_one_message) {
  const auto expect_7 = [&](const std::string& folder, const std::vector<std::string>& words) {
    LaunchedJob job(words, folder);
    EXPECT_EQ(job.wait(test::hang_s), 7) << job.output();
    EXPECT_TRUE(wait_until(10, [&] { return job.processes().empty(); }));
    const std::string output = job.output();
    EXPECT_EQ(count(output, "error: "), 1U) << output;
    EXPECT_EQ(count(output, "error: stopped at step "), 1U) << output;
    for (int rank = 0; rank < num_ranks; ++rank) {
      const auto status = read_status(status_file(folder, rank));
      ASSERT_TRUE(status) << "rank " << rank;
      EXPECT_EQ(status->code, 7) << "rank " << rank;
      EXPECT_NE(output.find("error: " + status->message), std::string::npos) << status->message;
    }
  };
  std::string folder = fresh_folder();
  expect_7(folder, four_ranks(folder, {"optimizer.lr=1e30"}));
  // Stages that would wait for each other for ever, if each looked at one instruction at a time.
  folder = fresh_folder();
  std::vector<std::string> words = test::mpirun(num_ranks);
  for (const std::string& word :
       training(folder, {"optimizer.lr=1e30", "parallel.tensor.x=2", "train.micro_batch_size=1",
                         "parallel.pipeline={stages: 2, schedule: eager-1f1b}"}))
    words.push_back(word);
  expect_7(folder, words);
}

TEST_F(Blows, a_mistake_in_the_configuration_is_said_once_and_nothing_is_written) {
  const std::string folder = fresh_folder();
  LaunchedJob job(four_ranks(folder, {"optimizer.lr=-1"}), folder);
  EXPECT_EQ(job.wait(test::hang_s), 2) << job.output();
  const std::string output = job.output();
  EXPECT_EQ(count(output, "error: "), 1U) << output;
  EXPECT_NE(output.find("optimizer.lr"), std::string::npos) << output;
  EXPECT_FALSE(file_exists(folder + "/run"));
}

class StartedAlone : public Failure {
 protected:
  /// A process that a launcher says is one of four, and that MPI sees alone.
  void expect_refusal(const LaunchedJob::Environment& environment, const std::string& cause) {
    const std::string folder = fresh_folder();
    LaunchedJob job(training(folder, {}), folder, environment);
    EXPECT_EQ(job.wait(test::hang_s), 2) << job.output();
    const std::string output = job.output();
    EXPECT_EQ(count(output, "\n"), 1U) << output;
    EXPECT_TRUE(output.starts_with("error: ")) << output;
    EXPECT_NE(output.find(" 4 tasks"), std::string::npos) << output;
    EXPECT_NE(output.find(cause), std::string::npos) << output;
    EXPECT_FALSE(file_exists(folder + "/run"));
    EXPECT_TRUE(wait_until(test::hang_s, [&] { return job.processes().empty(); }));
  }
};

TEST_F(StartedAlone, under_the_mpirun_of_another_library_the_cause_is_named) {
  expect_refusal({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "0"}},
                 "start them with the mpirun of that library");
}

/// The variables that srun sets, whatever its --mpi is.
const LaunchedJob::Environment of_srun{{"SLURM_JOB_ID", "7"},         {"SLURM_STEP_ID", "0"},
                                       {"SLURM_NTASKS", "4"},         {"SLURM_STEP_NUM_TASKS", "4"},
                                       {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_PROCID", "0"},
                                       {"SLURM_LOCALID", "0"}};

TEST_F(StartedAlone, by_srun_without_mpi_the_option_is_named) {
  expect_refusal(of_srun, "srun --mpi=pmix");
}

TEST_F(StartedAlone, by_srun_with_the_plugin_of_another_library_the_option_is_named) {
  LaunchedJob::Environment environment = of_srun;
  environment.insert({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}});
  expect_refusal(environment, "srun --mpi=pmix");
}

}  // namespace
}  // namespace fourfold
