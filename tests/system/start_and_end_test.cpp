// Ranks that are stopped or killed before the ranks know each other, or when their work is done,
// and strangers that call while the ranks find each other: the program under mpirun.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/descriptor.h"
#include "base/format.h"
#include "support/command.h"
#include "support/launched_job.h"
#include "support/long_run.h"
#include "support/pattern.h"

namespace fourfold::start_and_end_test {
namespace {

namespace fs = std::filesystem;
using test::LaunchedJob;
using test::wait_until;

constexpr int num_ranks = 3;
/// For a machine that does other work; alone it takes the watchdog's time and three seconds.
constexpr double most_s = 40;

/// Where support/stopping_rank.c strikes.
const std::vector<std::string> places = {"begin", "before_init", "after_init", "connect",
                                         "hello", "before_end",  "after_end",  "exit"};

/// Rank 0 is called, and calls nobody.
bool is_reached(const std::string& place, int rank) {
  return rank != 0 || (place != "connect" && place != "hello");
}

class StartAndEnd : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  }

  /// A training of two steps, one rank of which gets the signal at the place.
  void start(const std::string& place, int rank, int signal, const std::string& watchdog_s) {
    const std::string folder = path(std::to_string(++jobs_));
    fs::create_directories(folder);
    std::vector<std::string> words = test::mpirun(num_ranks);
    words.insert(words.end(), {"env", format("LD_PRELOAD={}", FOURFOLD_STOPPING_RANK),
                               format("ASAN_OPTIONS={}:detect_leaks=0", test::preload_allowed()),
                               format("STOPPING_RANK={}", rank), "STOPPING_AT=" + place,
                               format("STOPPING_SIGNAL={}", signal), FOURFOLD_BINARY, "train",
                               FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml"});
    for (const std::string& setting :
         {format("run.dir={}/run", folder), "run.watchdog_s=" + watchdog_s,
          std::string("parallel.data=3"), std::string("train.global_batch_size=6"),
          std::string("train.micro_batch_size=2"), std::string("train.steps=2"),
          std::string("run.threads=1")})
      words.insert(words.end(), {std::string("--set"), setting});
    job_.emplace(words, folder);
  }

  /// What the program itself says of errors, a line each.
  std::vector<std::string> errors() const {
    std::vector<std::string> lines;
    std::istringstream output(job_->output());
    for (std::string line; std::getline(output, line);)
      if (line.find("error: ") != std::string::npos) lines.push_back(line);
    return lines;
  }

  void expect_end(const std::string& place, int rank) {
    SCOPED_TRACE(format("rank {} is stopped at {}", rank, place));
    start(place, rank, SIGSTOP, "2");
    // How long the launcher takes is no matter of the watchdog.
    wait_until(test::hang_s, [&] { return job_->ranks().size() == num_ranks || job_->wait(0); });
    const std::optional<int> code = job_->wait(most_s);
    EXPECT_TRUE(wait_until(10, [&] { return job_->processes().empty(); }));
    // The last process of a job that is done has only to be woken.
    if (place == "exit" && rank == 0) {
      EXPECT_EQ(code, 0) << job_->output();
      EXPECT_TRUE(errors().empty()) << job_->output();
      return;
    }
    EXPECT_EQ(code, 9) << job_->output();
    ASSERT_EQ(errors().size(), 1U) << job_->output();
    EXPECT_TRUE(
        test::Pattern(format("^error: rank {} \\([^ ,]+, pid [0-9]+\\) ", rank)).is_in(errors()[0]))
        << errors()[0];
  }

  std::optional<LaunchedJob> job_;
  int jobs_ = 0;
};

TEST_F(StartAndEnd, a_rank_that_is_stopped_before_mpi_starts_is_named_and_all_end_with_9) {
  expect_end("before_init", 0);
}

TEST_F(StartAndEnd, a_rank_that_is_stopped_before_it_connects_is_named_and_all_end_with_9) {
  expect_end("connect", 1);
}

TEST_F(StartAndEnd, a_rank_that_is_stopped_when_its_status_is_written_is_named_and_all_end_with_9) {
  expect_end("after_end", 0);
}

TEST_F(StartAndEnd, a_rank_that_is_stopped_after_all_it_had_to_do_is_named_and_all_end_with_9) {
  expect_end("exit", 2);
}

TEST_F(StartAndEnd, the_last_process_is_woken_when_it_is_stopped) {
  expect_end("exit", 0);
}

TEST_F(StartAndEnd, any_rank_may_be_stopped_anywhere) {
  if (!is_long_run()) GTEST_SKIP() << "takes minutes; set FOURFOLD_LONG";
  for (const std::string& place : places)
    for (int rank = 0; rank < num_ranks; ++rank)
      if (is_reached(place, rank)) expect_end(place, rank);
}

TEST_F(StartAndEnd, any_rank_may_be_killed_anywhere) {
  if (!is_long_run()) GTEST_SKIP() << "takes minutes; set FOURFOLD_LONG";
  for (const std::string& place : places)
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (!is_reached(place, rank)) continue;
      SCOPED_TRACE(format("rank {} is killed at {}", rank, place));
      start(place, rank, SIGKILL, "5");
      // mpirun itself may never end: see failure_test.cpp.
      const int code = job_->wait(most_s).value_or(128 + SIGKILL);
      EXPECT_TRUE(code == 128 + SIGKILL || code == 8) << code << "\n" << job_->output();
      EXPECT_TRUE(wait_until(10, [&] { return job_->ranks().empty(); })) << job_->output();
      EXPECT_LE(errors().size(), 1U) << job_->output();
    }
}

/// As ps shows it.
char state_of(pid_t pid) {
  const std::string text = test::text_of(format("/proc/{}/stat", pid));
  const std::size_t end = text.rfind(") ");
  return end == std::string::npos ? '?' : text[end + 2];
}

/// The TCP port at which a process waits for calls: that of the newest descriptor, because the MPI
/// library has ports of its own, which strangers do hold up.
std::uint16_t port_of(pid_t pid) {
  std::map<std::string, int> descriptors;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(format("/proc/{}/fd", pid), ignored))
    descriptors[fs::read_symlink(entry.path(), ignored).string()] =
        std::stoi(entry.path().filename().string());
  std::map<int, std::uint16_t> ports;  // by descriptor
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, word;
    words >> number >> local >> remote >> state;
    for (int skipped = 0; skipped < 6; ++skipped) words >> word;
    const auto descriptor = descriptors.find(format("socket:[{}]", word));
    if (state == "0A" && local.starts_with("00000000:") && descriptor != descriptors.end())
      ports[descriptor->second] =
          static_cast<std::uint16_t>(std::stoul(local.substr(9), nullptr, 16));
  }
  return ports.empty() ? 0 : ports.rbegin()->second;
}

Descriptor call(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&where), sizeof where);
  return socket;
}

TEST_F(StartAndEnd, strangers_who_call_while_the_ranks_connect_hold_up_nobody) {
  start("connect", 1, SIGSTOP, "60");
  const auto is_waiting = [&] {
    const std::map<int, pid_t> ranks = job_->ranks();
    return ranks.size() == num_ranks && state_of(ranks.at(1)) == 'T';
  };
  ASSERT_TRUE(wait_until(test::hang_s, is_waiting)) << job_->output();
  const std::map<int, pid_t> ranks = job_->ranks();
  std::vector<Descriptor> strangers;
  const std::vector<std::string> words = {
      "", "GET / HTTP/1.1\r\n\r\n", std::string("H\x05\0\0\0", 5),
      std::string("H\x07\0\0\0no 1 23", 12), std::string(100'000, '\xff')};
  std::uint16_t port = 0;
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return (port = port_of(ranks.at(0))) != 0; }));
  for (int round = 0; round < 6; ++round)
    for (const std::string& word : words) {
      strangers.push_back(call(port));
      ::send(strangers.back().number(), word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  const auto begin = std::chrono::steady_clock::now();
  kill(ranks.at(1), SIGCONT);
  // The first step comes once the ranks are connected; the rest of the run takes what it takes.
  wait_until(test::hang_s,
             [&] { return job_->output().find("| loss") != std::string::npos || job_->wait(0); });
  EXPECT_LT(test::seconds_since(begin), 10) << job_->output();
  EXPECT_EQ(job_->wait(test::hang_s), 0) << job_->output();
  EXPECT_EQ(job_->output().find("cannot connect"), std::string::npos) << job_->output();
}

}  // namespace
}  // namespace fourfold::start_and_end_test
