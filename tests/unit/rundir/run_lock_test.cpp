#include "rundir/run_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"

namespace fourfold::rundir {
namespace {

namespace fs = std::filesystem;

LockHolder holder(const std::string& host, std::int64_t pid, const std::string& job = "",
                  const std::string& restart = "0") {
  return {host, "boot", "pids", pid, 5, job, restart, "2026-01-01T00:00:00Z"};
}

TEST(RunLock, row_07_only_a_process_of_this_machine_or_an_earlier_start_of_the_job_is_dead) {
  const LockHolder own = holder("a", 1, "77", "2");
  const auto lives = [](const LockHolder& h) { return h.pid == 10; };
  EXPECT_EQ(state_of(holder("a", 10), own, lives), HolderState::alive);
  EXPECT_EQ(state_of(holder("a", 11), own, lives), HolderState::dead);
  const auto elsewhere = [](const std::string& job, const std::string& restart) {
    LockHolder other = holder("b", 11, job, restart);
    other.boot = "another";
    return other;
  };
  EXPECT_EQ(state_of(elsewhere("", "0"), own, lives), HolderState::unknown);
  EXPECT_EQ(state_of(elsewhere("77", "1"), own, lives), HolderState::dead);
  EXPECT_EQ(state_of(elsewhere("77", "2"), own, lives), HolderState::unknown);
  EXPECT_EQ(state_of(elsewhere("78", "1"), own, lives), HolderState::unknown);
  EXPECT_EQ(state_of(holder("a", 10, "77", "1"), own, lives), HolderState::alive);
  LockHolder other_boot = holder("a", 11);
  other_boot.boot = "before";
  EXPECT_EQ(state_of(other_boot, own, lives), HolderState::unknown);
  LockHolder other_container = holder("a", 11);
  other_container.pids = "others";
  EXPECT_EQ(state_of(other_container, own, lives), HolderState::here);
  other_container.host = "a-name-of-its-own";
  EXPECT_EQ(state_of(other_container, own, lives), HolderState::here);
  LockHolder unknown_boot = own, other_unknown = other_container;
  unknown_boot.boot = other_unknown.boot = "";
  EXPECT_EQ(state_of(other_unknown, unknown_boot, lives), HolderState::unknown);
}

TEST(RunLock, row_07_a_process_is_known_by_its_start_too) {
  LockHolder self = this_holder([](const std::string&) { return std::nullopt; });
  EXPECT_TRUE(is_running(self));
  self.started += 1;
  EXPECT_FALSE(is_running(self));
  self.pid = 1 << 23;
  EXPECT_FALSE(is_running(self));
}

class Lock : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / format("fourfold-lock-{}", getpid())).string();
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  LockHolder self() const {
    return this_holder([](const std::string&) { return std::nullopt; });
  }
  std::string path() const { return folder_ + "/lock"; }
  std::string refusal(bool take_over) {
    try {
      const RunLock lock(
          folder_, self(),
          {.take_over = take_over, .beat_s = 0.05, .patience_s = 0.3, .on_lost = {}});
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::output_in_use);
      return error.what();
    }
    return {};
  }

  std::string folder_;
};

TEST_F(Lock, row_07_is_there_while_it_is_held_and_leaves_nothing) {
  {
    const RunLock lock(folder_, self(), {.beat_s = 0.02, .on_lost = {}});
    const std::string before = read_file(path());
    EXPECT_NE(refusal(false), "");
    EXPECT_NE(refusal(true).find("it is alive"), std::string::npos);
    EXPECT_NE(read_file(path()), before);  // it beats
  }
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_EQ(refusal(false), "");
}

TEST_F(Lock, row_07_that_cannot_be_read_or_is_of_elsewhere_needs_to_be_taken_over) {
  for (const std::string text : {"", "{", "\x1b[2J", "{\"host\":\"b\",\"pid\":3}\nbeat 1\n"}) {
    fs::create_directories(folder_);
    std::ofstream(path()) << text;
    const std::string why = refusal(false);
    EXPECT_NE(why.find("--take-over"), std::string::npos) << why;
    EXPECT_EQ(why.find('\x1b'), std::string::npos);
    EXPECT_EQ(refusal(true), "");
    fs::remove_all(folder_);
  }
}

/// A container that was killed and started again: another space of process numbers, one machine.
TEST_F(Lock, row_07_of_another_container_of_this_machine_is_taken_once_it_does_not_beat) {
  LockHolder other = self();
  other.pids = "pid:[1]";
  other.host = "before";
  fs::create_directories(folder_);
  const auto write = [&](int beat) {
    std::ofstream(path()) << format(
        "{{\"host\":\"{}\",\"boot\":\"{}\",\"pids\":\"{}\",\"pid\":7,\"started\":1}}\nbeat "
        "{:012}\n",
        other.host, other.boot, other.pids, beat);
  };
  write(3);
  EXPECT_EQ(refusal(false), "") << "it does not beat, so that it is gone";
  fs::create_directories(folder_);
  write(3);
  std::atomic<bool> has_ended{false};
  std::thread heart([&] {
    for (int beat = 4; !has_ended; ++beat) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      write(beat);
    }
  });
  const std::string why = refusal(false);
  has_ended = true;
  heart.join();
  EXPECT_NE(why.find("it is alive and keeps it: wait until it ends, or choose another"),
            std::string::npos)
      << why;
  EXPECT_NE(read_file(path()).find("before"), std::string::npos);
}

TEST_F(Lock, row_07_who_loses_it_is_told_and_does_not_remove_the_others) {
  std::atomic<int> lost{0};
  {
    const RunLock lock(folder_, self(),
                       {.beat_s = 0.02, .on_lost = [&](const std::string&) { ++lost; }});
    fs::remove(path());
    std::ofstream(path()) << "another's";
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(lost, 1);
  }
  EXPECT_EQ(read_file(path()), "another's");
}

TEST_F(Lock, row_07_of_many_who_want_it_one_gets_it) {
  std::atomic<int> holders{0}, most{0}, got{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) try {
          const RunLock lock(folder_, self(), {.beat_s = 1, .on_lost = {}});
          most = std::max<int>(most, ++holders);
          ++got;
          --holders;
        } catch (const UserError&) {
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_GT(got, 0);
}

}  // namespace
}  // namespace fourfold::rundir
