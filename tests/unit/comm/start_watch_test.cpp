#include "comm/start_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "support/child_process.h"

namespace fourfold::comm {
namespace {

const std::vector<Sibling> all_run = {{0, 10, false}, {1, 11, false}, {2, 12, false}};
const std::vector<Sibling> one_stopped = {{0, 10, false}, {1, 11, true}, {2, 12, false}};

/// When a rank says something, looking every half second; seconds, or -1 for an hour of silence.
double speaks_at(std::int64_t rank, double watchdog_s, const std::vector<Sibling>& siblings) {
  StartPatience patience(rank, watchdog_s, 100);
  for (double now = 100.5; now < 3700; now += 0.5)
    if (patience.wants_to_look(now) && patience.judge(siblings, "n1", now)) return now - 100;
  return -1;
}

TEST(StartPatience, a_stopped_rank_is_named_by_the_first_that_runs_after_the_watchdogs_time) {
  EXPECT_EQ(speaks_at(0, 10, one_stopped), 10);
  EXPECT_GE(speaks_at(2, 10, one_stopped), 12);
  StartPatience patience(0, 10, 0);
  std::optional<StartPatience::Verdict> verdict;
  for (double now = 0.5; now <= 10; now += 0.5)
    if (patience.wants_to_look(now)) verdict = patience.judge(one_stopped, "n1", now);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->stopped_pid, 11);
  EXPECT_EQ(verdict->message.find("rank 1 (n1, pid 11) is stopped"), 0U) << verdict->message;
}

TEST(StartPatience, ranks_that_run_have_more_time_but_not_for_ever) {
  EXPECT_EQ(speaks_at(0, 10, all_run), 100);
  EXPECT_EQ(speaks_at(0, 10, {}), 100);
  EXPECT_GT(speaks_at(1, 10, all_run), speaks_at(0, 10, all_run));
}

TEST(StartPatience, a_rank_that_goes_on_is_not_named) {
  StartPatience patience(0, 10, 0);
  bool is_named = false, is_stopped = false;
  for (double now = 0.5; now < 60; now += 0.5) {
    is_stopped = !is_stopped;
    if (patience.wants_to_look(now))
      is_named |= patience.judge(is_stopped ? one_stopped : all_run, "n1", now).has_value();
  }
  EXPECT_FALSE(is_named);
}

TEST(StartPatience, a_process_that_slept_itself_begins_to_wait_anew) {
  StartPatience patience(0, 10, 0);
  EXPECT_FALSE(patience.wants_to_look(1));
  EXPECT_FALSE(patience.wants_to_look(1000));
  EXPECT_FALSE(patience.wants_to_look(1004));
  EXPECT_TRUE(patience.wants_to_look(1005));
}

TEST(Siblings, are_the_processes_of_one_parent_that_have_a_rank) {
  const std::string proc = testing::TempDir() + format("proc-{}", getpid());
  const auto process = [&](std::int64_t pid, const std::string& stat,
                           const std::string& variables) {
    const std::string folder = format("{}/{}", proc, pid);
    make_directories(folder);
    write_file_atomic(folder + "/stat", stat);
    write_file_atomic(folder + "/environ", variables);
  };
  const auto variables = [](int rank) {
    return format("A=1{0}OMPI_COMM_WORLD_SIZE=3{0}OMPI_COMM_WORLD_RANK={1}{0}", '\0', rank);
  };
  const std::int64_t own = getpid(), other = own + 1;
  process(own, format("{} (four) fold) S 7 1", own), variables(2));
  process(other, format("{} (a b) T 7 1", other), variables(0));
  process(own + 2, format("{} (x) T 8 1", own + 2), variables(1));  // another parent
  process(own + 3, format("{} (x) T 7 1", own + 3), "A=1");         // no rank
  process(own + 4, "", variables(1));                               // ends meanwhile
  make_directories(proc + "/sys");
  EXPECT_EQ(siblings(proc), (std::vector<Sibling>{{0, other, true}, {2, own, false}}));
  EXPECT_TRUE(siblings(proc + "/sys").empty());
  std::filesystem::remove_all(proc);
}

TEST(IdleWatch, ends_a_process_that_waits_for_what_never_comes) {
  EXPECT_EQ(test::code_of_child([] {
              const IdleWatch watch(0.3);
              pause();
              return 1;
            }),
            static_cast<int>(ExitCode::no_progress));
}

TEST(IdleWatch, leaves_a_process_alone_that_computes_or_that_nobody_limits) {
  EXPECT_EQ(test::code_of_child([] {
              IdleWatch watch(1);
              // However busy the machine is, this gets more than a hundredth of a core.
              const std::clock_t begin = std::clock();
              while (std::clock() - begin < 3 * CLOCKS_PER_SEC / 2) {
              }
              watch.set_patience(0);
              std::this_thread::sleep_for(std::chrono::milliseconds(300));
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace fourfold::comm
