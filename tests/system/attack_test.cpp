// Runs that are killed, or whose files fail or change, at any moment: what was committed stays, and
// the same command ends with the weights of a run that nothing happened to.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/command.h"
#include "support/launched_job.h"
#include "support/long_run.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

/// Codes of the table, without 70: no attack is a bug of ours.
bool is_of_the_table(int code) {
  static const std::set<int> codes = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 75};
  return codes.contains(code);
}

class Attack : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write_file_atomic(path("tiny.yaml"),
                      "model: {kind: gpt, hidden_size: 16, num_layers: 1, num_attention_heads: 2, "
                      "ffn_hidden_size: 32, max_position_embeddings: 8, vocab_size: 32}\n"
                      "data: {format: synthetic, seq_length: 8, split: 0.99}\n"
                      "train: {steps: 6, global_batch_size: 4, micro_batch_size: 2}\n"
                      "eval: {interval_steps: 0, batches: 1}\n"
                      "checkpoint: {interval_steps: 2}\nsample: {tokens: 0}\n"
                      "run: {threads: 1}\n");
    const CommandResult unbroken = train("unbroken");
    ASSERT_EQ(unbroken.code, 0) << unbroken.text;
    weights_ = weights("unbroken");
    ASSERT_FALSE(weights_.empty());
  }

  /// The program with calls that fail as the variables say (support/failing_calls.c).
  CommandResult run_failing(const std::string& variables, const std::string& words) const {
    return run_command(format(
        "timeout -s KILL {} env GOMP_SPINCOUNT=0 ASAN_OPTIONS={} LD_PRELOAD={} FAILING_COUNT={} "
        "{} {} {} 2>&1",
        test::hang_s, test::preload_allowed(), FOURFOLD_FAILING_CALLS, path("count"), variables,
        FOURFOLD_BINARY, words));
  }
  std::string training(const std::string& name) const {
    return format("train {} --set run.dir={}", path("tiny.yaml"), path(name));
  }
  /// What happens at call number `at` below the run's folder: "kill" or an errno.
  CommandResult train(const std::string& name, std::int64_t at = 0,
                      const std::string& how = "kill") const {
    return run_failing(format("FAILING_BELOW={} FAILING_AT={} FAILING_HOW={}", path(name), at, how),
                       training(name));
  }
  std::string weights(const std::string& name) const {
    const std::string file = path(name + "/model.safetensors");
    return fs::exists(file) ? read_file(file) : "";
  }
  /// How many calls an unbroken run makes.
  std::int64_t calls() const {
    train("counted");
    return std::stoll(read_file(path("count")));
  }
  /// Steps of checkpoints that have their name.
  std::set<std::string> committed(const std::string& name) const {
    std::set<std::string> steps;
    const fs::path folder = path(name + "/checkpoints");
    if (!fs::exists(folder)) return steps;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("step-"))
        steps.insert(entry.path().filename().string());
    return steps;
  }

  /// The same command, with nothing in its way, ends as if nothing had been; from the newest
  /// checkpoint that was committed.
  void expect_recovery(const std::string& name, const std::string& what) const {
    const std::set<std::string> before = committed(name);
    const CommandResult again = train(name);
    const bool was_complete = again.text.find("the run is complete") != std::string::npos;
    EXPECT_EQ(again.code, was_complete ? 11 : 0) << what << "\n" << again.text;
    EXPECT_TRUE(weights(name) == weights_) << what << ": other weights, or none\n" << again.text;
    const std::set<std::string> after = committed(name);
    if (!before.empty()) {
      const std::string& newest = *before.rbegin();
      EXPECT_TRUE(after.contains(newest)) << what << ": " << newest << " is lost";
      const std::string step = format("step {}", std::stoll(newest.substr(5)));
      EXPECT_TRUE(was_complete || again.text.find(step) != std::string::npos)
          << what << ": does not go on from " << step << "\n"
          << again.text;
    }
    fs::remove_all(path(name));
  }

  std::string weights_;
};

/// Every call once in the long run, some at random in the quick one.
std::vector<std::int64_t> chosen(std::int64_t calls, std::size_t quick, std::size_t at_random) {
  std::mt19937 random(5);
  std::vector<std::int64_t> all;
  const auto any = [&] { return 1 + static_cast<std::int64_t>(random()) % calls; };
  if (is_long_run())
    for (std::int64_t at = 1; at <= calls; ++at) all.push_back(at);
  const std::size_t wanted = is_long_run() ? std::max(at_random, all.size()) : quick;
  while (all.size() < wanted) all.push_back(any());
  return all;
}

TEST_F(Attack, a_kill_at_any_call_loses_nothing_that_was_committed) {
  const std::int64_t calls = this->calls();
  ASSERT_GT(calls, 50);
  int killed = 0;
  const auto all = chosen(calls, 10, 500);
  for (const std::int64_t at : all) {
    const CommandResult result = train("run", at, "kill");
    killed += result.code == 137 || result.code == -1 ? 1 : 0;
    expect_recovery("run", format("killed at call {} of {}", at, calls));
  }
  std::printf("%d of %zu runs killed, %lld calls in all\n", killed, all.size(),
              static_cast<long long>(calls));
  EXPECT_GE(2 * killed, static_cast<int>(all.size()));
}

TEST_F(Attack, a_call_that_fails_ends_with_a_code_of_the_table_and_loses_nothing) {
  const std::int64_t calls = this->calls();
  std::mt19937 random(9);
  for (const std::int64_t at : chosen(calls, 5, 0)) {
    const int error = random() % 2 == 0 ? EIO : ENOSPC;
    const CommandResult result = train("run", at, std::to_string(error));
    const std::string what = format("error {} from call {} of {} on", error, at, calls);
    EXPECT_TRUE(is_of_the_table(result.code)) << what << ": " << result.code << "\n" << result.text;
    EXPECT_TRUE(result.code == 0 || result.text.find("error: ") != std::string::npos)
        << what << "\n"
        << result.text;
    expect_recovery("run", what);
  }
}

TEST_F(Attack, a_call_that_is_interrupted_is_made_again) {
  const std::int64_t calls = this->calls();
  for (const std::int64_t at : chosen(calls, 4, 0)) {
    const CommandResult result = train("run", at, std::to_string(EINTR));
    const std::string what = format("call {} of {} interrupted", at, calls);
    EXPECT_TRUE(is_of_the_table(result.code)) << what << ": " << result.code << "\n" << result.text;
    expect_recovery("run", what);
  }
}

TEST_F(Attack, a_checkpoint_that_the_disk_does_not_give_is_an_error_of_the_disk) {
  ASSERT_EQ(run_failing("", training("run") + " --stop-at 4").code, 0);
  const std::string newest = path("run/checkpoints/step-000000004");
  const std::string eio = format("FAILING_AT=1 FAILING_HOW={}", EIO);
  const auto expect = [&](const std::string& variables, const std::string& words, int code,
                          const std::string& says) {
    SCOPED_TRACE(variables + " " + words);
    const CommandResult result = run_failing(variables, words);
    EXPECT_EQ(result.code, code) << result.text;
    EXPECT_NE(result.text.find(says), std::string::npos) << result.text;
    EXPECT_NE(result.text.find("Input/output error"), std::string::npos) << result.text;
    EXPECT_EQ(result.text.find("damaged"), std::string::npos) << result.text;
    EXPECT_EQ(result.text.find("passed over"), std::string::npos) << result.text;
  };
  const std::string known = "what the checkpoint holds is not known";
  for (const std::string file : {"/manifest.json", "/shard-00000.safetensors"})
    for (const std::string call : {"open", "pread"}) {
      const std::string variables =
          format("FAILING_BELOW={}{} FAILING_ONLY={} {}", newest, file, call, eio);
      expect(variables, training("run"), 6, known);
      expect(variables, training("run") + " --dry-run", 6, known);
      expect(variables, format("ckpt verify {}", path("run")), 6, "cannot be ");
    }
  expect(format("FAILING_BELOW={} FAILING_ONLY=open {}", newest, eio),
         format("ckpt ls {}", path("run")), 0, "not read: ");
  EXPECT_EQ(committed("run").size(), 2U);
  expect_recovery("run", "the disk gives it again");
}

TEST_F(Attack, metrics_that_cannot_be_opened_for_a_while_lose_no_line_and_stop_no_run) {
  const auto lines = [&](const std::string& name) {
    const std::string file = path(name + "/metrics.jsonl");
    const std::string text = fs::exists(file) ? read_file(file) : "";
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto run = [&](const std::string& name, int error, const std::string& more) {
    const CommandResult result =
        run_failing(format("FAILING_BELOW={} FAILING_ONLY=open FAILING_AT=1 FAILING_HOW={} {}",
                           path(name + "/metrics.jsonl"), error, more),
                    training(name));
    EXPECT_EQ(result.code, 0) << result.text;
    EXPECT_TRUE(weights(name) == weights_);
    return result.text;
  };
  EXPECT_EQ(run("interrupted", EINTR, "").find("warning"), std::string::npos);
  EXPECT_EQ(lines("interrupted"), 6);
  EXPECT_NE(run("once", EIO, "FAILING_TIMES=1").find("metrics.jsonl: Input/output error"),
            std::string::npos);
  EXPECT_EQ(lines("once"), 6);
  EXPECT_NE(run("always", EIO, "").find("metrics.jsonl: 6 lines were lost"), std::string::npos);
}

/// Flips, cuts, empties or removes a file of the run, or a run's folder for something else.
std::string damage(const fs::path& run, std::mt19937& random) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(run))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  const fs::path file = files[random() % files.size()];
  std::string text = read_file(file.string());
  const std::string name = fs::relative(file, run).string();
  switch (random() % 5) {
    case 0:
      fs::remove(file);
      return name + " removed";
    case 1:
      fs::remove(file);
      fs::create_directory(file);
      return name + " replaced by a folder";
    case 2:
      text.resize(random() % (text.size() + 1));
      break;
    case 3:
      for (int i = 0; i < 3 && !text.empty(); ++i)
        text[random() % text.size()] = static_cast<char>(random());
      break;
    default:
      text.insert(random() % (text.size() + 1), "\x1b[2J\xff{\"");
  }
  write_file_atomic(file.string(), text);
  return name + " changed";
}

TEST_F(Attack, damaged_files_end_with_a_code_of_the_table_and_reach_no_terminal) {
  std::mt19937 random(13);
  const int rounds = is_long_run() ? 500 : 6;
  for (int round = 0; round < rounds; ++round) {
    fs::remove_all(path("run"));
    train("run", 60 + static_cast<std::int64_t>(random() % 100), "kill");
    const std::string what = damage(path("run"), random);
    const CommandResult result = train("run");
    EXPECT_TRUE(is_of_the_table(result.code)) << what << ": " << result.code << "\n" << result.text;
    EXPECT_EQ(result.text.find('\x1b'), std::string::npos) << what << "\n" << result.text;
  }
}

}  // namespace
}  // namespace fourfold
