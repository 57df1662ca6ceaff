// Rows 6, 54, 56, 57 and 58 of the robustness catalogue (tests/README.md): what befalls a whole
// job.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"
#include "support/command.h"
#include "support/launched_job.h"
#include "support/long_run.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;
using test::LaunchedJob;
using Words = std::vector<std::string>;

class Jobs : public FolderTest {
 protected:
  std::string fresh_folder() {
    const std::string folder = path(format("job-{}", ++jobs_));
    fs::create_directories(folder);
    return folder;
  }
  /// gpt-tiny, short, with a run directory of its own.
  Words training(const std::string& program, const Words& sets) {
    Words words{program, "train", FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml"};
    Words all{"train.steps=4", "run.threads=1", "sample.tokens=0", "eval.batches=1",
              format("run.dir={}/run", path(format("run-{}", ++jobs_)))};
    all.insert(all.end(), sets.begin(), sets.end());
    for (const std::string& set : all) words.insert(words.end(), {std::string("--set"), set});
    return words;
  }
  struct Ended {
    std::optional<int> code;
    std::string output;
  };
  Ended run(const Words& words, const LaunchedJob::Environment& environment = {}) {
    LaunchedJob job(words, fresh_folder(), environment);
    const std::optional<int> code = job.wait(test::hang_s);
    return {code, job.output()};
  }

  int jobs_ = 0;
};

/// mpirun of four ranks, the last of which is started with other words.
class Row6 : public Jobs {
 protected:
  void SetUp() override {
    Jobs::SetUp();
    if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  }
  Ended run_with_odd_rank(const std::string& program, const Words& odd_sets,
                          const Words& odd_options = {}) {
    const Words sets{"parallel.tensor={x: 2}", "parallel.data=2", "run.dir=" + path("run")};
    Words words = test::mpirun(3), odd_all = sets;
    const Words usual = training(FOURFOLD_BINARY, sets);
    words.insert(words.end(), usual.begin(), usual.end());
    odd_all.insert(odd_all.end(), odd_sets.begin(), odd_sets.end());
    const Words odd = training(program, odd_all);
    words.insert(words.end(), {":", "-np", "1"});
    words.insert(words.end(), odd_options.begin(), odd_options.end());
    words.insert(words.end(), odd.begin(), odd.end());
    return run(words);
  }
  void expect_refusal(const Ended& ended, const std::string& what, const std::string& says) {
    EXPECT_EQ(ended.code, 10) << ended.output;
    const auto begin = ended.output.find("error: rank 3 (");
    ASSERT_NE(begin, std::string::npos) << ended.output;
    const std::string line = ended.output.substr(begin, ended.output.find('\n', begin) - begin);
    EXPECT_NE(line.find(") has another " + what + " than the other ranks: "), std::string::npos)
        << line;
    EXPECT_NE(line.find(says), std::string::npos) << line;
    EXPECT_EQ(ended.output.find("error: ", begin + 1), std::string::npos) << ended.output;
    EXPECT_FALSE(file_exists(path("run"))) << "something was written";
  }
};

TEST_F(Row6, a_rank_with_another_byte_in_its_configuration_is_named) {
  expect_refusal(
      run_with_odd_rank(FOURFOLD_BINARY, {"optimizer.lr=2e-3", "lr_schedule.min_lr=1e-4"}),
      "configuration", "optimizer.lr = 0.002 there, 0.001 on rank 0");
}

TEST_F(Row6, a_rank_of_another_build_is_named) {
  // The same program with another last byte, as another build of it would differ.
  const std::string other = path("fourfold");
  fs::copy_file(FOURFOLD_BINARY, other);
  std::ofstream(other, std::ios::app | std::ios::binary) << '\0';
  expect_refusal(run_with_odd_rank(other, {}), "binary", "start the same file on all hosts");
}

TEST_F(Row6, a_rank_with_another_environment_is_named) {
  expect_refusal(run_with_odd_rank(FOURFOLD_BINARY, {}, {"-x", "OMP_DYNAMIC=true"}), "environment",
                 "OMP_DYNAMIC=true there, ");
}

TEST_F(Row6, a_rank_with_other_data_is_named) {
  const auto text = [&](const std::string& name, char last) {
    std::string all;
    while (all.size() < 4000) all += "to be or not to be ";
    std::ofstream(path(name)) << all << last;
    return path(name);
  };
  const std::string file = text("mine.txt", 'a'), other = text("theirs.txt", 'b');
  // One path, which leads elsewhere on one host: here by a link that each sees in its own folder.
  fs::create_directories(path("a"));
  fs::create_directories(path("b"));
  fs::create_symlink(file, path("a/t.txt"));
  fs::create_symlink(other, path("b/t.txt"));
  Words words = test::mpirun(1);
  const Words sets{"parallel.data=2", "run.dir=" + path("run"), "data.format=text",
                   "data.path=t.txt", "data.tokenizer=byte",    "model.vocab_size=256"};
  const Words program = training(FOURFOLD_BINARY, sets), again = program;
  words.insert(words.end(), {"-wdir", path("a")});
  words.insert(words.end(), program.begin(), program.end());
  words.insert(words.end(), {":", "-np", "1", "-wdir", path("b")});
  words.insert(words.end(), again.begin(), again.end());
  const Ended ended = run(words);
  EXPECT_EQ(ended.code, 10) << ended.output;
  EXPECT_NE(ended.output.find("error: ranks 0 ("), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("have not the same data set: "), std::string::npos) << ended.output;
}

/// How many allocations the program makes with these words, and what it does when one fails.
class Allocations : public Jobs {
 protected:
  std::int64_t count(const Words& words, int code = 0) {
    const std::string file = path("count");
    const Ended ended = run(words, {{"COUNT_IN", file}});
    EXPECT_EQ(ended.code, code) << ended.output;
    return std::stoll("0" + test::text_of(file));
  }
  /// The first ones, and then so many spread over the rest.
  static std::vector<std::int64_t> places(std::int64_t number, std::int64_t first,
                                          std::int64_t spread) {
    std::vector<std::int64_t> result;
    for (std::int64_t i = 1; i <= std::min(first, number); ++i) result.push_back(i);
    for (std::int64_t i = 0; i < spread; ++i)
      result.push_back(first + 1 + (number - first - 1) * i / spread);
    return result;
  }
  void expect_clean_ends(const Words& words, const std::vector<std::int64_t>& places) {
    std::map<int, int> codes;
    for (const std::int64_t place : places) {
      const Ended ended = run(words, {{"FAIL_AT", std::to_string(place)}});
      ASSERT_TRUE(ended.code.has_value()) << "allocation " << place << ": it hangs";
      ++codes[*ended.code];
      // 12; 0 where it could do without.
      EXPECT_TRUE(ended.code == 12 || ended.code == 0)
          << "allocation " << place << ": code " << *ended.code << "\n"
          << ended.output;
      if (ended.code == 12) {
        EXPECT_NE(ended.output.find("out of memory"), std::string::npos) << ended.output;
      }
    }
    for (const auto& [code, times] : codes) std::printf("code %d: %d times\n", code, times);
    EXPECT_GT(codes[12], codes[0]);
  }
  static std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
    return count;
  }
  /// Each file of a run directory is there whole or not at all.
  static void expect_whole(const std::string& folder, bool has_ended) {
    checkpoint::Store store(real_files(), folder + "/checkpoints");
    for (const std::int64_t step : store.steps())
      EXPECT_NO_THROW(checkpoint::verify(real_files(), store.open(step)));
    const std::string model = folder + "/model.safetensors";
    EXPECT_TRUE(file_exists(model) || !has_ended);
    if (file_exists(model)) {
      EXPECT_NO_THROW(checkpoint::SafetensorsFile::open(model));
    }
    for (const std::string& line : split(test::text_of(folder + "/metrics.jsonl"), '\n'))
      if (!line.empty()) {
        EXPECT_NO_THROW(parse_json(line, "metrics.jsonl"));
      }
  }
};

using Row54 = Allocations;
TEST_F(Row54, any_allocation_of_reading_and_planning_may_fail) {
  const Words plan{FAILING_FOURFOLD, "plan", FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml"};
  expect_clean_ends(plan, places(count(plan), is_long_run() ? 300 : 20, is_long_run() ? 2000 : 60));
}

TEST_F(Row54, an_allocation_may_fail_in_what_a_library_says_cannot_throw) {
  // CLI11 looks up whether a word is a command in a noexcept function, which copies the word for
  // each command there is; a long one is copied to memory of its own.
  const Words words{FAILING_FOURFOLD, "a-command-that-does-not-exist"};
  constexpr int refused = 2, commands = 16;
  const std::int64_t number = count(words, refused);
  // Before there are words, commands are described, as in any other call.
  const std::int64_t without_words = count({FAILING_FOURFOLD}, refused);
  ASSERT_GT(number, without_words + 100 * commands);
  const std::int64_t first = is_long_run() ? 1 : without_words - commands,
                     step = is_long_run() ? commands / 4 : commands;
  std::map<int, int> codes;
  for (std::int64_t place = first; place <= number; place += step) {
    const Ended ended = run(words, {{"FAIL_AT", std::to_string(place)}});
    SCOPED_TRACE(format("allocation {} of {}: {}", place, number, ended.output));
    ASSERT_TRUE(ended.code.has_value()) << "it hangs";
    ++codes[*ended.code];
    EXPECT_TRUE(ended.code == 12 || ended.code == refused) << "code " << *ended.code;
    EXPECT_EQ(count_of(ended.output, "error: "), 1U);
    EXPECT_EQ(count_of(ended.output, "out of memory"), ended.code == 12 ? 1U : 0U);
    EXPECT_EQ(ended.output.find("bad_alloc"), std::string::npos);
  }
  EXPECT_GT(codes[12], codes[refused]);
}

TEST_F(Row54, any_allocation_until_a_run_would_begin_may_fail) {
  Words words = training(FAILING_FOURFOLD, {"parallel.data=2"});
  words.push_back("--dry-run");
  expect_clean_ends(words, places(count(words), 0, is_long_run() ? 1000 : 30));
}

TEST_F(Row54, any_allocation_of_a_run_may_fail_and_nothing_is_left_half_written) {
  // Two saves and an evaluation; the second save is that of the end.
  const Words sets{"train.steps=3", "checkpoint.interval_steps=2", "eval.interval_steps=2"};
  const std::int64_t number = count(training(FAILING_FOURFOLD, sets));
  std::map<int, int> codes;
  for (const std::int64_t place : places(number, 0, is_long_run() ? 1000 : 40)) {
    const Words words = training(FAILING_FOURFOLD, sets);
    const std::string folder = path(format("run-{}/run", jobs_));
    const Ended ended = run(words, {{"FAIL_AT", std::to_string(place)}});
    SCOPED_TRACE(format("allocation {} of {}: {}", place, number, ended.output));
    ASSERT_TRUE(ended.code.has_value()) << "it hangs";
    ++codes[*ended.code];
    // 0 where it could do without: a save that fails is done again, but for the last one.
    EXPECT_TRUE(ended.code == 12 || ended.code == 0) << "code " << *ended.code;
    EXPECT_EQ(count_of(ended.output, "error: "), ended.code == 0 ? 0U : 1U);
    const bool is_quiet = *ended.code == 0 && ended.output.find("warning: ") == std::string::npos;
    EXPECT_EQ(count_of(ended.output, "out of memory"), is_quiet ? 0U : 1U);
    EXPECT_EQ(ended.output.find("bad_alloc"), std::string::npos);
    expect_whole(folder, *ended.code == 0);
  }
  for (const auto& [code, times] : codes) std::printf("code %d: %d times\n", code, times);
  EXPECT_GT(codes[12], codes[0]);
}

using Row57 = Allocations;
TEST_F(Row57, a_process_that_throws_before_its_steps_ends_all_with_its_code) {
  if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  Words words = test::mpirun(2);
  const Words train = training(FAILING_FOURFOLD, {"parallel.data=2"});
  words.insert(words.end(), train.begin(), train.end());
  words.push_back("--overwrite");
  const std::string file = path("count");
  ASSERT_EQ(run(words, {{"COUNT_IN", file}, {"FAIL_RANK", "1"}}).code, 0);
  const std::int64_t number = std::stoll("0" + test::text_of(file));
  ASSERT_GT(number, 1000);
  // The first half: reading, planning, compiling.
  const std::vector<std::int64_t> all = places(number / 2, 0, is_long_run() ? 50 : 3);
  std::size_t refused = 0;
  for (const std::int64_t place : all) {
    LaunchedJob job(words, fresh_folder(),
                    {{"FAIL_AT", std::to_string(place)}, {"FAIL_RANK", "1"}});
    const auto code = job.wait(test::hang_s);
    ASSERT_TRUE(code.has_value()) << "allocation " << place << ": it hangs\n" << job.output();
    EXPECT_TRUE(code == 12 || code == 0) << "allocation " << place << ": code " << *code << "\n"
                                         << job.output();
    refused += code == 12 ? 1 : 0;
    EXPECT_TRUE(test::wait_until(10, [&] { return job.processes().empty(); }));
  }
  EXPECT_GE(refused + 1, all.size());
}

using Row58 = Jobs;
TEST_F(Row58, a_reader_that_leaves_does_not_end_the_run_and_lost_lines_are_counted) {
  Words words = training(FOURFOLD_BINARY, {"train.steps=30", "log.interval=1"});
  std::string command;
  for (const std::string& word : words) command += "'" + word + "' ";
  const Ended ended =
      run({"bash", "-c", command + "| head -n 1 > /dev/null; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_NE(ended.output.find(" lines did not reach standard output"), std::string::npos)
      << ended.output;
}

TEST_F(Row58, a_reader_that_reads_nothing_does_not_hold_the_run_up) {
  // More lines than a pipe and the program hold back together.
  const Words words = training(FOURFOLD_BINARY, {"train.steps=3000", "log.interval=1"});
  std::string command;
  for (const std::string& word : words) command += "'" + word + "' ";
  const Ended ended = run(
      {"bash", "-c", format("exec 3> >(sleep {}); {} >&3; exit $?", 2 * test::hang_s, command)});
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_NE(ended.output.find(" lines did not reach standard output"), std::string::npos)
      << ended.output;
}

TEST_F(Row58, a_full_disk_under_log_and_metrics_costs_lines_and_no_step) {
  const std::string dir = path("full");
  fs::create_directories(dir);
  fs::create_symlink("/dev/full", dir + "/log.rank0.txt");
  fs::create_symlink("/dev/full", dir + "/metrics.jsonl");
  Words words = training(FOURFOLD_BINARY, {"run.dir=" + dir});
  words.push_back("--overwrite");
  const Ended ended = run(words);
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_NE(ended.output.find("warning: the log file cannot be written: "), std::string::npos)
      << ended.output;
  EXPECT_NE(ended.output.find(" lines of the log file were lost"), std::string::npos)
      << ended.output;
  EXPECT_NE(ended.output.find("metrics.jsonl: 4 lines were lost"), std::string::npos)
      << ended.output;
  EXPECT_TRUE(file_exists(dir + "/model.safetensors"));
}

/// A control group of version 1 of our own; needs root and that version.
class Row56 : public Jobs {
 protected:
  void SetUp() override {
    Jobs::SetUp();
    group_ = format("/sys/fs/cgroup/memory/fourfold-test-{}", getpid());
    if (!is_long_run()) GTEST_SKIP() << "changes control groups; set FOURFOLD_LONG";
    if (mkdir(group_.c_str(), 0755) != 0)
      GTEST_SKIP() << "cannot make the control group " << group_;
  }
  void TearDown() override {
    rmdir(group_.c_str());
    Jobs::TearDown();
  }
  void limit(std::int64_t bytes) const {
    std::ofstream(group_ + "/memory.limit_in_bytes") << bytes;
  }
  /// A command that first moves itself into the group.
  std::string inside(const std::string& command) const {
    return format("echo $$ > {}/cgroup.procs && exec {}", group_, command);
  }

  std::string group_;
};

TEST_F(Row56, the_limit_of_a_control_group_is_seen_before_the_run_begins) {
  limit(std::int64_t{64} << 20);
  std::string command;
  for (const std::string& word :
       training(FOURFOLD_BINARY, {"model.hidden_size=512", "model.num_layers=4"}))
    command += "'" + word + "' ";
  const Ended ended = run({"sh", "-c", inside(command)});
  EXPECT_EQ(ended.code, 5) << ended.output;
  EXPECT_NE(ended.output.find("are available; reduce"), std::string::npos) << ended.output;
}

TEST_F(Row56, survivors_say_that_the_memory_killer_struck) {
  if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  limit(std::int64_t{400} << 20);
  const Words program = training(FOURFOLD_BINARY, {"train.steps=100000", "parallel.data=2"});
  Words words = test::mpirun(2);
  words.insert(words.end(), program.begin(), program.end());
  LaunchedJob job(words, fresh_folder());
  ASSERT_TRUE(test::wait_until(test::hang_s, [&] {
    return job.output().find("step ") != std::string::npos;
  })) << job.output();
  // Rank 1 goes into the group, and the limit falls below what it has.
  std::ofstream(group_ + "/cgroup.procs") << job.ranks().at(1);
  std::ofstream(group_ + "/memory.move_charge_at_immigrate") << 3;
  LaunchedJob eater({"sh", "-c", inside("tail /dev/zero")}, fresh_folder());
  eater.wait(test::hang_s);
  if (test::text_of("/proc/vmstat").find("oom_kill 0\n") != std::string::npos)
    GTEST_SKIP() << "this kernel does not count";
  kill(job.ranks().at(1), SIGKILL);
  // The launcher may never end: see failure_test.cpp.
  const std::string notice = "the kernel's memory killer has ended 1 process on this host";
  EXPECT_TRUE(test::wait_until(test::hang_s, [&] {
    return job.output().find(notice) != std::string::npos;
  })) << job.output();
}

}  // namespace
}  // namespace fourfold
