// tests/support/virtual-hosts: what it makes, and what it leaves. Ranks on two hosts train as
// threads do.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "support/command.h"
#include "support/launched_job.h"
#include "support/step_metrics.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

const std::string script = std::string(FOURFOLD_SOURCE_DIR) + "/tests/support/virtual-hosts";

TEST(VirtualHostsScript, says_what_is_wrong_with_a_command_line_in_one_line) {
  struct Case {
    const char *words, *expected;
  };
  for (const Case& c :
       std::vector<Case>{{"up", "up wants a folder"},
                         {"up /no/such/folder --hosts 0", "--hosts 0 is no number from 1 to 200"},
                         {"up /no/such/folder --rate 1gb", "--rate 1gb is no rate such as 500mbit"},
                         {"up /no/such/folder --inside 9", "--inside 9 is no rate such as 500mbit"},
                         {"up /no/such/folder --latency 1", "--latency 1 is no time such as 50us"},
                         {"up /no/such/folder --cores", "--cores needs a value"},
                         {"up /no/such/folder --ranks 2", "unknown option '--ranks'"},
                         {"run /no/such/folder --ranks 2", "run wants a program"},
                         {"once --hosts 2 --ranks x true", "--ranks x is no number from 1"},
                         {"down", "down wants a folder"}}) {
    const CommandResult result = run_command(format("{} {} 2>&1", script, c.words));
    EXPECT_EQ(result.code, 2) << c.words;
    EXPECT_NE(result.text.find(c.expected), std::string::npos) << c.words << "\n" << result.text;
    EXPECT_EQ(split(result.text, '\n').size(), 2U) << result.text;
  }
}

class VirtualHosts : public FolderTest {
 protected:
  static constexpr double rate_bytes_per_s = 20e6 / 8;

  void SetUp() override {
    FolderTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(start({"up", path("hosts"), "--hosts", "2", "--rate", "20mbit"}));
    const auto code = up_->wait(test::hang_s);
    if (code == 77) GTEST_SKIP() << up_->output();
    ASSERT_EQ(code, 0) << up_->output();
  }
  void TearDown() override {
    up_.reset();  // with the processes that keep the hosts
    FolderTest::TearDown();
  }

  /// What it starts bears the mark of `up_`, which ends it at last.
  void start(std::vector<std::string> words) {
    fs::create_directories(path("up"));
    words.insert(words.begin(), script);
    up_ = std::make_unique<test::LaunchedJob>(words, path("up"));
  }
  /// A command that has ended, with the mark of `up_`.
  CommandResult marked(const std::string& command) const {
    return run_command(format("export FOURFOLD_TEST_JOB={} && {} 2>&1", path("up"), command));
  }
  CommandResult train(const std::string& launcher, const std::string& run) const {
    return marked(
        format("{} {} train configs/gpt-tiny.yaml --set run.dir={} --set train.steps=4 --set "
               "parallel.data=2 --set precision.compute=fp64 --trace 2",
               launcher, FOURFOLD_BINARY, path(run)));
  }

  std::unique_ptr<test::LaunchedJob> up_;
};

/// The bytes and seconds of a step in which gradients are reduced, mean over ranks.
std::pair<double, double> gradients_of(const std::string& run) {
  const Json summary = parse_json(
      run_command(format("{} trace summary --json {}", FOURFOLD_BINARY, run)).text, "summary");
  const Json* const list = summary.find("traffic");
  if (list == nullptr) return {};
  for (const Json& traffic : list->items())
    if (*traffic.find("traffic") == Json("data.gradients"))
      return {traffic.find("bytes")->as_double(), traffic.find("seconds")->as_double()};
  return {};
}

TEST_F(VirtualHosts, two_with_one_rank_each_train_as_two_threads_do_over_links_of_their_rate) {
  const CommandResult hosts = train(format("{} run {}", script, path("hosts")), "hosts-run");
  ASSERT_EQ(hosts.code, 0) << hosts.text;
  EXPECT_NE(hosts.text.find("2 processes, 1 on this host"), std::string::npos) << hosts.text;
  const CommandResult threads = train("", "threads-run");
  ASSERT_EQ(threads.code, 0) << threads.text;
  const std::vector<test::StepMetrics> expected = test::steps_of(path("threads-run"));
  ASSERT_EQ(expected.size(), 4U);
  constexpr double rounding = 1e-12;
  test::expect_equal_steps(test::steps_of(path("hosts-run")), expected, rounding);
  // Each of two ranks must get all that the other one has, but what a bucket holds.
  const auto [bytes, seconds] = gradients_of(path("hosts-run"));
  EXPECT_GT(bytes, 1e5);
  EXPECT_GE(seconds, 0.9 * bytes / rate_bytes_per_s);

  const CommandResult down = marked(format("{} down {}", script, path("hosts")));
  EXPECT_EQ(down.code, 0) << down.text;
  EXPECT_EQ(down.text, "");
  EXPECT_FALSE(fs::exists(path("hosts")));
  EXPECT_TRUE(test::wait_until(test::hang_s, [&] { return up_->processes().empty(); }));
}

TEST_F(VirtualHosts, ranks_of_one_host_share_the_rate_within_it) {
  const std::string launcher = format("{} once --hosts 1 --ranks 2 --inside 20mbit --", script);
  const CommandResult run = train(launcher, "inside-run");
  ASSERT_EQ(run.code, 0) << run.text;
  // What the two send each other passes one queue.
  const auto [bytes, seconds] = gradients_of(path("inside-run"));
  EXPECT_GT(bytes, 1e5);
  EXPECT_GE(seconds, 0.9 * 2 * bytes / rate_bytes_per_s);
}

TEST_F(VirtualHosts, a_program_ends_with_its_exit_code_and_each_host_has_its_name) {
  // The launcher may warn on stderr of a daemon that was faster than it was (setpgid failed).
  const CommandResult names = marked(
      format("({} run {} --ranks 2 hostname 2>{})", script, path("hosts"), path("warnings")));
  EXPECT_EQ(names.code, 0);
  std::vector<std::string> lines = split(std::string(trim(names.text)), '\n');
  std::ranges::sort(lines);
  EXPECT_EQ(lines, (std::vector<std::string>{"h1", "h1", "h2", "h2"}));
  EXPECT_EQ(marked(format("{} run {} false", script, path("hosts"))).code, 1);
  const CommandResult again = marked(format("{} up {}", script, path("hosts")));
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.text.find("hosts exists"), std::string::npos) << again.text;
}

TEST_F(VirtualHosts, nothing_is_left_of_hosts_when_the_script_is_ended_by_a_signal) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    const std::string folder = path(format("signal-{}", signal));
    fs::create_directories(folder);
    test::LaunchedJob job({script, "once", "--hosts", "2", "--", "sleep", "600"}, folder);
    const auto sleepers = [&] {
      return std::ranges::count_if(job.processes(), [](pid_t pid) {
        return test::text_of(format("/proc/{}/cmdline", pid))
            .starts_with(std::string("sleep") + '\0' + "600");
      });
    };
    ASSERT_TRUE(test::wait_until(test::hang_s, [&] { return sleepers() == 2; })) << job.output();
    kill(job.pid(), signal);
    EXPECT_NE(job.wait(test::hang_s), 0) << job.output();
    EXPECT_TRUE(test::wait_until(test::hang_s, [&] { return job.processes().empty(); }));
  }
}

}  // namespace
}  // namespace fourfold
