// Ranks as processes: the same results as on threads, and what remains when one dies or hangs.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "comm/status.h"
#include "support/launched_job.h"

namespace fourfold::comm {
namespace {

using test::LaunchedJob;

/// A folder of this test's own, empty.
std::string fresh_folder() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string folder = testing::TempDir() + "Mpi." + info->name() + "." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
    folder_ = fresh_folder();
  }

  /// `ranks` ranks that do `what`; without a watchdog no rank watches the others.
  std::vector<std::string> ranks_that(int ranks, const std::string& what,
                                      const std::optional<std::string>& watchdog = "0") {
    std::vector<std::string> words = test::mpirun(ranks);
    words.insert(words.end(), {COMM_RANKS, what});
    if (watchdog) words.insert(words.end(), {folder_ + "/status", *watchdog});
    return words;
  }

  /// The process of each rank, once all have begun their work.
  static std::map<int, pid_t> processes_at_work(const LaunchedJob& job, int ranks) {
    const auto works = [&](int rank) {
      const std::string line = "rank " + std::to_string(rank) + " is process ";
      return job.output().find(line) != std::string::npos;
    };
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_TRUE(test::wait_until(test::hang_s, [&] { return works(rank); })) << job.output();
    return job.ranks();
  }

  static bool all_gone(const LaunchedJob& job) {
    return test::wait_until(5, [&] { return job.processes().empty(); });
  }

  void expect_sound(const std::string& what, int ranks, const std::string& says) {
    LaunchedJob job(ranks_that(ranks, what), folder_);
    EXPECT_EQ(job.wait(test::hang_s), 0) << job.output();
    EXPECT_NE(job.output().find(says), std::string::npos) << job.output();
    for (int rank = 0; rank < ranks; ++rank) expect_status(rank, 0, "");
  }

  void expect_status(int rank, int code, const std::string& part_of_message) {
    const std::string path = status_path(folder_ + "/status", Rank(static_cast<std::size_t>(rank)));
    ASSERT_TRUE(file_exists(path)) << path;
    const Json json = parse_json(read_file(path), path);
    EXPECT_EQ(json.find("code")->as_integer(), code) << json.dump();
    EXPECT_NE(json.find("message")->as_string().find(part_of_message), std::string::npos)
        << json.dump();
  }

  /// Sends the signal to one rank of four; all others must end with `code` and name it.
  void expect_end(int victim, int signal, const std::string& watchdog, int code,
                  const std::string& message, double within_s) {
    LaunchedJob job(ranks_that(4, "work", watchdog), folder_);
    const std::map<int, pid_t> processes = processes_at_work(job, 4);
    ASSERT_EQ(processes.size(), 4U);
    const auto begin = std::chrono::steady_clock::now();
    kill(processes.at(victim), signal);
    const std::optional<int> result = job.wait(20);
    EXPECT_TRUE(all_gone(job));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(elapsed.count(), within_s);
    EXPECT_EQ(result, signal == SIGKILL ? 128 + SIGKILL : code) << job.output();
    const std::string name = "rank " + std::to_string(victim) + " (";
    for (int rank = 0; rank < 4; ++rank)
      if (rank != victim) expect_status(rank, code, name);
    const std::string output = job.output();
    const std::size_t said = output.find("error: " + name);
    EXPECT_NE(said, std::string::npos) << output;
    EXPECT_EQ(output.find("error: ", said + 1), std::string::npos) << output;
    EXPECT_NE(job.output().find(message), std::string::npos) << job.output();
  }

  std::string folder_;
};

TEST_F(Mpi, every_collective_on_every_type_equals_the_serial_result) {
  expect_sound("matrix", 4, "4 ranks");
}

TEST_F(Mpi, collectives_larger_than_a_count_can_say_are_split) {
  expect_sound("matrix-split", 4, "4 ranks");
}

TEST_F(Mpi, one_thread_at_a_time_is_enough) {
  expect_sound("matrix-one-thread", 2, "several threads: no");
}

TEST_F(Mpi, a_fault_of_one_rank_ends_all_with_its_code_and_is_said_once) {
  LaunchedJob job(ranks_that(4, "fault"), folder_);
  EXPECT_EQ(job.wait(test::hang_s), 7) << job.output();
  for (int rank = 0; rank < 4; ++rank) expect_status(rank, 7, "rank 1: the loss is NaN");
  const std::string said = "error: rank 1: the loss is NaN", output = job.output();
  const std::size_t first = output.find(said);
  ASSERT_NE(first, std::string::npos) << output;
  EXPECT_EQ(output.find(said, first + 1), std::string::npos) << output;
}

TEST_F(Mpi, without_a_monitor_a_fault_ends_all_too) {
  LaunchedJob job(ranks_that(3, "fault", std::nullopt), folder_);
  EXPECT_EQ(job.wait(test::hang_s), 7) << job.output();
  EXPECT_NE(job.output().find("error: rank 1: the loss is NaN"), std::string::npos);
}

// The bounds are for an idle host; mpirun itself takes some tenths of a second to end a job.

TEST_F(Mpi, when_a_rank_is_killed_the_others_name_it_and_end_with_code_8) {
  expect_end(2, SIGKILL, "0", 8, "died; it was last seen after step", 5);
}

TEST_F(Mpi, when_rank_0_is_killed_the_others_name_it_and_end_with_code_8) {
  expect_end(0, SIGKILL, "0", 8, "died; it was last seen after step", 5);
}

TEST_F(Mpi, when_a_rank_is_stopped_it_is_named_and_all_end_with_code_9) {
  expect_end(1, SIGSTOP, "2", 9, "has not answered for 2", 8);
}

TEST_F(Mpi, when_rank_0_is_stopped_it_is_named_and_all_end_with_code_9) {
  expect_end(0, SIGSTOP, "2", 9, "has not answered for 2", 8);
}

TEST_F(Mpi, sigterm_to_a_rank_ends_the_job_without_accusing_anybody_of_dying) {
  LaunchedJob job(ranks_that(3, "work"), folder_);
  const std::map<int, pid_t> processes = processes_at_work(job, 3);
  ASSERT_EQ(processes.size(), 3U);
  for (const auto& [rank, process] : processes) kill(process, SIGTERM);
  EXPECT_EQ(job.wait(test::hang_s), 128 + SIGTERM);
  EXPECT_TRUE(all_gone(job));
  EXPECT_EQ(job.output().find("died"), std::string::npos) << job.output();
}

}  // namespace
}  // namespace fourfold::comm
