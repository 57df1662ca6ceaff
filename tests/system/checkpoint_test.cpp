// The program and its checkpoints when jobs meet, disks are full, signals come and files are
// damaged: rows of the catalogue of failures that need a whole process.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "base/file.h"
#include "base/random.h"
#include "support/command.h"
#include "support/launched_job.h"
#include "support/long_run.h"
#include "support/pattern.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;
using test::LaunchedJob;
using test::wait_until;
using Words = std::vector<std::string>;

class Checkpoint : public FolderTest {
 protected:
  /// gpt-tiny in the run directory `name`, with a checkpoint every ten steps.
  Words training(const std::string& name, const Words& sets, const Words& more = {}) const {
    Words words{FOURFOLD_BINARY, "train", FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml"};
    Words all{"run.threads=1",         "checkpoint.interval_steps=10",
              "eval.interval_steps=0", "eval.batches=1",
              "sample.tokens=0",       "run.dir=" + path(name)};
    all.insert(all.end(), sets.begin(), sets.end());
    for (const std::string& set : all) words.insert(words.end(), {std::string("--set"), set});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Words on_four_ranks(const Words& program) {
    // mpirun's own SIGKILL, which follows its SIGTERM, must leave time for a save.
    Words words = test::mpirun(4);
    words.insert(words.end(), {"--mca", "odls_base_sigkill_timeout", "30"});
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  static Words grid() { return {"parallel.tensor={x: 2, z: 2}", "train.micro_batch_size=2"}; }
  static Words joined(Words a, const Words& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  std::unique_ptr<LaunchedJob> start(const Words& words) {
    const std::string folder = path(format("job-{}", ++jobs_));
    fs::create_directories(folder);
    return std::make_unique<LaunchedJob>(words, folder);
  }
  CommandResult run(const Words& words) {
    const auto job = start(words);
    const int code = job->wait(test::hang_s).value_or(-1);
    return {code, job->output()};
  }
  std::string metrics(const std::string& name) const {
    return test::text_of(path(name) + "/metrics.jsonl");
  }
  bool has_begun(const std::string& name) const { return !metrics(name).empty(); }
  std::string weights(const std::string& name) const {
    return read_file(path(name) + "/model.safetensors");
  }
  /// The process of the program, as a shell or launcher may stand before it.
  static pid_t process_of(const LaunchedJob& job) {
    const auto all = job.processes();
    return all.empty() ? 0 : all.front();
  }
  /// To the program, once it is there: between fork and exec it is not yet known by its
  /// environment. Nothing where it has ended.
  static void send(LaunchedJob& job, int signal) {
    wait_until(test::hang_s, [&] { return process_of(job) > 0 || job.wait(0); });
    // Process 0 would be this test and all its group.
    if (const pid_t process = process_of(job); process > 0) kill(process, signal);
  }
  /// mpirun itself.
  static pid_t launcher_of(const LaunchedJob& job) {
    for (const pid_t pid : job.processes())
      if (test::text_of(format("/proc/{}/comm", pid)) == "mpirun\n") return pid;
    return 0;
  }
  /// One bit of a file, near its end.
  static void flip(const std::string& file) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(-99, std::ios::end);
    const auto place = bytes.tellg();
    const char byte = static_cast<char>(bytes.get() ^ 4);
    bytes.seekp(place);
    bytes.put(byte);
  }
  std::string shard(const std::string& name, int step, int rank) const {
    return format("{}/checkpoints/step-{:09}/shard-{:05}.safetensors", path(name), step, rank);
  }

  int jobs_ = 0;
};

std::size_t count_lines(const std::string& text, const std::string& with) {
  std::size_t count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find(with) != std::string::npos) ++count;
  return count;
}

// --- row 7: two jobs, one run directory

TEST_F(Checkpoint, row_07_a_second_job_is_refused_and_the_first_is_unharmed) {
  const Words words = training("run", {"train.steps=100000"});
  const auto first = start(words);
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_begun("run"); })) << first->output();
  for (const Words& more : {Words{}, Words{"--overwrite"}, Words{"--take-over"}}) {
    const CommandResult second = run(joined(words, more));
    EXPECT_EQ(second.code, 11) << second.text;
    EXPECT_EQ(count_lines(second.text, "error: "), 1U) << second.text;
    EXPECT_NE(second.text.find(format("{} is in use by a job on ", path("run"))), std::string::npos)
        << second.text;
    EXPECT_NE(second.text.find(format("(pid {}, since", process_of(*first))), std::string::npos)
        << second.text;
  }
  send(*first, SIGTERM);
  EXPECT_EQ(first->wait(test::hang_s), 75) << first->output();
  EXPECT_FALSE(file_exists(path("run/lock")));
}

TEST_F(Checkpoint, row_07_the_lock_of_a_job_that_was_killed_is_in_nobodys_way) {
  const Words words = training("run", {"train.steps=4000"}), rest = {"--stop-at", "4000"};
  const auto first = start(words);
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_begun("run"); })) << first->output();
  send(*first, SIGKILL);
  ASSERT_EQ(first->wait(test::hang_s), 128 + SIGKILL);
  EXPECT_TRUE(file_exists(path("run/lock")));
  const auto second = start(words);
  ASSERT_TRUE(wait_until(test::hang_s, [&] {
    return second->output().find("100%") != std::string::npos ||
           second->output().find("step ") != std::string::npos;
  }));
  send(*second, SIGTERM);
  EXPECT_EQ(second->wait(test::hang_s), 75) << second->output();
}

TEST_F(Checkpoint, row_07_a_job_that_stands_still_loses_its_lock_only_to_who_takes_it_over) {
  const Words words = training("run", {"train.steps=200000"});
  const auto first = start(words);
  ASSERT_TRUE(wait_until(test::hang_s, [&] { return file_exists(path("run/checkpoints/LATEST")); }))
      << first->output();
  const pid_t pid = process_of(*first);
  kill(pid, SIGSTOP);
  const CommandResult refused = run(words);
  EXPECT_EQ(refused.code, 11) << refused.text;
  // It does not beat.
  const auto second = start(joined(words, {"--take-over"}));
  ASSERT_TRUE(wait_until(test::hang_s, [&] {
    return second->output().find("going on from step") != std::string::npos;
  })) << second->output();
  kill(pid, SIGCONT);
  EXPECT_EQ(first->wait(test::hang_s), 11) << first->output();
  EXPECT_NE(first->output().find("was taken by another job while this one stood still"),
            std::string::npos)
      << first->output();
  send(*second, SIGTERM);
  EXPECT_EQ(second->wait(test::hang_s), 75) << second->output();
}

TEST_F(Checkpoint, row_07_the_lock_of_another_machine_is_taken_over_once_nobody_beats) {
  fs::create_directories(path("run"));
  std::ofstream(path("run/lock"))
      << R"({"host":"n17","boot":"x","pids":"y","pid":7,"started":8,"job":"9","restart":"0",)"
      << R"("since":"2026-01-01T00:00:00Z"})" << "\nbeat 000000000041\n";
  const Words words = training("run", {"train.steps=3"});
  CommandResult result = run(words);
  EXPECT_EQ(result.code, 11);
  EXPECT_NE(result.text.find("in use by a job on \"n17\" (pid 7, job \"9\", since"),
            std::string::npos)
      << result.text;
  EXPECT_NE(result.text.find("pass --take-over"), std::string::npos) << result.text;
  // The same job of the scheduler, put back into the queue: it has ended.
  const auto again = run(joined({"env", "SLURM_JOB_ID=9", "SLURM_RESTART_COUNT=1"},
                                training("run", {"train.steps=3"})));
  EXPECT_EQ(again.code, 0) << again.text;
}

// --- row 8: no place to write

TEST_F(Checkpoint, row_08_a_place_that_cannot_be_written_is_found_before_the_first_step) {
  std::ofstream(path("file")) << "not a folder";
  for (const std::string& dir :
       {path("file"), path("file/run"), std::string("/proc/run"), std::string("/sys/run")}) {
    const CommandResult result = run(joined(training("x", {}), {"--set", "run.dir=" + dir}));
    EXPECT_EQ(result.code, 6) << result.text;
    EXPECT_EQ(count_lines(result.text, "error: "), 1U) << result.text;
    EXPECT_NE(result.text.find(dir), std::string::npos) << result.text;
    EXPECT_EQ(result.text.find("step "), std::string::npos) << result.text;
  }
}

TEST_F(Checkpoint, row_08_a_disk_that_is_too_small_or_read_only_is_found_before_the_first_step) {
  const std::string place = path("small");
  fs::create_directories(place);
  if (mount("tmpfs", place.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "mounting needs root";
  const Words words = training("small/run", {});
  CommandResult result = run(words);
  EXPECT_EQ(result.code, 6) << result.text;
  EXPECT_TRUE(test::Pattern("error: [^\n]*small/run: has room for "
                            "[^\n]*the run needs [^\n]*keep_last")
                  .is_in(result.text))
      << result.text;
  EXPECT_EQ(metrics("small/run"), "");
  EXPECT_EQ(mount("tmpfs", place.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m"), 0);
  result = run(words);
  EXPECT_EQ(result.code, 6) << result.text;
  EXPECT_NE(result.text.find("ead-only file system"), std::string::npos) << result.text;
  umount(place.c_str());
}

// --- row 25: asked to stop

TEST_F(Checkpoint, row_25_a_run_that_is_asked_to_stop_in_any_phase_goes_on_where_it_was) {
  const Words sets{"train.steps=200", "eval.interval_steps=50", "eval.batches=100"};
  ASSERT_EQ(run(training("whole", sets)).code, 0);
  const Random random(1, random_stream("test.instants"));
  const std::uint64_t rounds = is_long_run() ? 100 : 4;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const std::string name = format("stopped-{}", i);
    const Words words = training(name, sets);
    const auto job = start(words);
    // Also while it reads, plans and writes its directory. Signals before main() end it.
    std::this_thread::sleep_for(std::chrono::milliseconds(60 + random.below(600, i, 0)));
    send(*job, SIGTERM);
    const auto code = job->wait(test::hang_s);
    ASSERT_TRUE(code == 75 || code == 0 || code == 128 + SIGTERM) << job->output();
    if (code == 128 + SIGTERM) {
      EXPECT_FALSE(has_begun(name)) << job->output();
    }
    if (code == 0) continue;
    const CommandResult rest = run(words);
    ASSERT_EQ(rest.code, 0) << rest.text;
    EXPECT_TRUE(weights(name) == weights("whole")) << "round " << i;
  }
}

class CheckpointOfProcesses : public Checkpoint {
 protected:
  void SetUp() override {
    Checkpoint::SetUp();
    // Open MPI's mpirun may take a minute to end where ranks end with a code.
    if (!is_long_run()) GTEST_SKIP() << "takes minutes: set FOURFOLD_LONG=1";
    if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  }
};

TEST_F(CheckpointOfProcesses, row_25_sigterm_of_one_rank_or_of_mpirun_saves_and_ends_all_with_75) {
  const Words sets = joined(grid(), {"train.steps=300", "eval.interval_steps=100"});
  ASSERT_EQ(run(on_four_ranks(training("whole", sets))).code, 0);
  const std::uint64_t rounds = 8;
  const Random random(2, random_stream("test.instants"));
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const std::string name = format("stopped-{}", i);
    const Words words = on_four_ranks(training(name, sets));
    const auto job = start(words);
    ASSERT_TRUE(wait_until(test::hang_s, [&] { return has_begun(name) || job->wait(0); }))
        << job->output();
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(200, i, 0)));
    const auto ranks = job->ranks();
    const int victim = static_cast<int>(random.below(5, i, 1));
    if (ranks.size() < 4) continue;  // it was faster
    if (victim == 4) {
      // mpirun sends it to all, and ends with its own code.
      if (const pid_t launcher = launcher_of(*job); launcher > 0) kill(launcher, SIGTERM);
    } else {
      kill(ranks.at(victim), SIGTERM);
    }
    // mpirun may never end once its ranks are gone (failure_test.cpp): then they are judged alone.
    EXPECT_TRUE(test::wait_until(test::hang_s, [&] { return job->ranks().empty(); }))
        << job->output();
    const auto code = job->wait(5);
    const std::string output = job->output();
    if (count_lines(metrics(name), "loss") == 300) continue;  // it was faster
    if (victim != 4) {  // mpirun passes nothing on when it is stopped itself
      EXPECT_EQ(code.value_or(75), 75) << output;
      EXPECT_NE(output.find("stopped, as asked"), std::string::npos) << "round " << i << output;
    }
    EXPECT_EQ(output.find("died"), std::string::npos) << output;
    const CommandResult rest = run(words);
    ASSERT_EQ(rest.code, 0) << rest.text;
    EXPECT_NE(rest.text.find("going on from step"), std::string::npos) << rest.text;
    EXPECT_TRUE(weights(name) == weights("whole")) << "round " << i;
  }
}

TEST_F(CheckpointOfProcesses,
       row_28_a_damaged_chunk_makes_way_on_all_ranks_and_an_exact_one_fails) {
  const Words sets = joined(grid(), {"train.steps=40"});
  ASSERT_EQ(run(on_four_ranks(training("whole", sets))).code, 0);
  const CommandResult part = run(on_four_ranks(training("run", sets, {"--stop-at", "30"})));
  ASSERT_EQ(part.code, 0) << part.text;
  flip(shard("run", 30, 3));
  const CommandResult exact = run(on_four_ranks(
      training("run", sets, {"--resume", path("run") + "/checkpoints/step-000000030"})));
  EXPECT_EQ(exact.code, 4) << exact.text;
  EXPECT_EQ(count_lines(exact.text, "error: "), 1U) << exact.text;
  EXPECT_NE(exact.text.find("shard-00003.safetensors: chunk 0 of 1 has the hash"),
            std::string::npos)
      << exact.text;
  const CommandResult rest = run(on_four_ranks(training("run", sets)));
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_EQ(count_lines(rest.text,
                        "warning: the checkpoint of step 30 is damaged and passed over "
                        "for that of step 20"),
            1U)
      << rest.text;
  EXPECT_TRUE(weights("run") == weights("whole"));
}

TEST_F(Checkpoint, row_28_a_damaged_chunk_makes_way_and_the_run_is_the_one_that_never_ended) {
  const Words sets{"train.steps=40"};
  ASSERT_EQ(run(training("whole", sets)).code, 0);
  ASSERT_EQ(run(training("run", sets, {"--stop-at", "30"})).code, 0);
  flip(shard("run", 30, 0));
  flip(shard("run", 20, 0));
  const CommandResult exact =
      run(training("run", sets, {"--resume", path("run") + "/checkpoints/step-000000030"}));
  EXPECT_EQ(exact.code, 4) << exact.text;
  EXPECT_EQ(count_lines(metrics("run"), "loss"), 30U);
  const CommandResult rest = run(training("run", sets));
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_EQ(count_lines(rest.text, "is damaged and passed over for that of step"), 2U) << rest.text;
  EXPECT_EQ(count_lines(metrics("run"), "loss"), 40U);
  EXPECT_TRUE(weights("run") == weights("whole"));
  EXPECT_EQ(run_fourfold("ckpt verify " + path("run")).code, 0);
}

// --- row 17: killed at random

TEST_F(Checkpoint, row_17_a_thousand_random_kills_lose_no_checkpoint) {
  if (!is_long_run()) GTEST_SKIP() << "takes minutes; set FOURFOLD_LONG";
  const char* wanted = std::getenv("FOURFOLD_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 1000;
  // Some saves between two kills; long enough that all kills find it at work.
  const Words sets{format("train.steps={}", 400 * kills), "checkpoint.interval_steps=5"};
  const Words words = training("killed", sets);
  const Random random(7, random_stream("test.kills"));
  const test::Pattern newest_step("^step +([0-9]+)");
  std::int64_t newest = 0, most_lost = 0;
  int done = 0;
  for (; done < kills; ++done) {
    const auto job = start(words);
    ASSERT_TRUE(wait_until(test::hang_s, [&] {
      return job->wait(0) || job->output().find("going on from") != std::string::npos ||
             has_begun("killed");
    })) << job->output();
    const auto pause = random.below(500, static_cast<std::uint64_t>(done), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    if (job->wait(0)) break;
    send(*job, SIGKILL);
    ASSERT_EQ(job->wait(test::hang_s), 128 + SIGKILL) << job->output();
    fs::remove_all(path(format("job-{}", jobs_)));
    const CommandResult listed = run_fourfold("ckpt ls " + path("killed"));
    const auto step = newest_step.first_in(listed.text);
    if (!step) continue;
    const std::int64_t now = std::stoll(step->at(1));
    ASSERT_GE(now, newest) << listed.text;
    ASSERT_EQ(listed.text.find("damaged"), std::string::npos) << listed.text;
    newest = now;
    most_lost = std::max(most_lost, newest);
  }
  EXPECT_EQ(run_fourfold("ckpt verify " + path("killed")).code, 0);
  // The rest, up to a round step, against a run that never ended.
  const std::int64_t end = (newest / 25 + 2) * 25;
  const Words stop{"--stop-at", std::to_string(end)};
  ASSERT_EQ(run(joined(words, stop)).code, 0);
  ASSERT_EQ(run(joined(training("whole", sets), stop)).code, 0);
  EXPECT_TRUE(weights("killed") == weights("whole"));
  std::printf("%d kills, %lld steps\n", done, static_cast<long long>(end));
}

// --- row 35: every instant of a run

TEST_F(Checkpoint, row_35_a_run_that_is_stopped_behind_any_step_is_the_run_that_never_was) {
  const Words sets{"train.steps=20", "model.dropout=0.1", "train.global_batch_size=8",
                   "train.micro_batch_size=4"};
  ASSERT_EQ(run(training("whole", sets)).code, 0);
  for (int k = 1; k < 20; ++k) {
    if (!is_long_run() && k % 6 != 1) continue;
    const std::string name = format("run-{}", k);
    ASSERT_EQ(run(training(name, sets, {"--stop-at", std::to_string(k)})).code, 0);
    ASSERT_EQ(run(training(name, sets)).code, 0);
    EXPECT_TRUE(weights(name) == weights("whole")) << "stopped behind step " << k;
  }
}

// --- row 32 and bad inputs

TEST_F(Checkpoint, row_32_every_change_of_the_architecture_is_refused_and_nothing_is_touched) {
  const Words sets{"train.steps=20"};
  ASSERT_EQ(run(training("run", sets, {"--stop-at", "10"})).code, 0);
  const std::string before = metrics("run");
  for (const char* change :
       {"model.num_layers=3", "model.hidden_size=64", "model.num_attention_heads=1",
        "model.ffn_hidden_size=96", "model.vocab_size=90", "model.max_position_embeddings=80",
        "model.bias=false", "model.tied_head=false", "precision.compute=fp64"}) {
    const CommandResult result = run(training("run", joined(sets, {change})));
    EXPECT_TRUE(result.code == 2 || result.code == 4) << change << "\n" << result.text;
    const std::string text = change, key = text.substr(0, text.find('='));
    EXPECT_NE(result.text.find(key), std::string::npos) << result.text;
  }
  EXPECT_EQ(metrics("run"), before);
  EXPECT_EQ(run(training("run", sets)).code, 0);
}

TEST_F(Checkpoint, a_run_goes_on_in_bf16_and_back_where_the_user_means_it_but_not_in_fp64) {
  Words sets{"train.steps=5", "eval.batches=1", "train.global_batch_size=2",
             "train.micro_batch_size=1"};
  const auto in = [&](const std::string& precision) {
    return joined(sets, {"kernels=reference", "precision.compute=" + precision});
  };
  const Words meant{"--override", "precision.compute"};
  ASSERT_EQ(run(training("run", in("fp32"), {"--stop-at", "2"})).code, 0);
  const CommandResult asked = run(training("run", in("bf16")));
  EXPECT_EQ(asked.code, 2) << asked.text;
  EXPECT_NE(asked.text.find("--override precision.compute"), std::string::npos) << asked.text;
  const CommandResult other = run(training("run", in("fp64"), meant));
  EXPECT_EQ(other.code, 4) << other.text;
  EXPECT_NE(other.text.find("the model has f64"), std::string::npos) << other.text;
  const CommandResult mixed = run(training("run", in("bf16"), joined(meant, {"--stop-at", "3"})));
  EXPECT_EQ(mixed.code, 0) << mixed.text;
  const Words wide = joined(in("bf16"), {"precision.residual=fp32"});
  const CommandResult unmeant = run(training("run", wide));
  EXPECT_EQ(unmeant.code, 2) << unmeant.text;
  EXPECT_NE(unmeant.text.find("--override precision.residual"), std::string::npos) << unmeant.text;
  const CommandResult widened =
      run(training("run", wide, {"--override", "precision.residual", "--stop-at", "4"}));
  EXPECT_EQ(widened.code, 0) << widened.text;
  const CommandResult back = run(training("run", in("fp32"), meant));
  EXPECT_EQ(back.code, 0) << back.text;
}

TEST_F(Checkpoint, bad_inputs_are_refused_with_their_code_in_one_line) {
  ASSERT_EQ(run(training("run", {"train.steps=30"}, {"--stop-at", "20"})).code, 0);
  fs::create_directories(path("empty"));
  const std::string one = path("run/checkpoints/step-000000020"), manifest = one + "/manifest.json",
                    file = shard("run", 20, 0);
  struct Case {
    const char* says;
    int code;
    std::string command;
    std::function<void()> damage;
  };
  const auto cut = [](const std::string& which, std::uintmax_t size) {
    return [which, size] { fs::resize_file(which, size); };
  };
  const auto put = [](const std::string& which, const std::string& text) {
    return [which, text] { std::ofstream(which) << text; };
  };
  const std::string go_on = format(
      "train {} --set run.dir={} --set run.threads=1 --set "
      "sample.tokens=0 --set train.steps=30 --resume {}",
      FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml", path("other"), one);
  const std::string verify = "ckpt verify " + path("run") + " --step 20";
  const std::vector<Case> cases = {
      {"there is no such folder", 4, "ckpt ls " + path("nothing"), {}},
      {"there is no such folder", 4, "ckpt info " + path("nothing"), {}},
      {"holds no checkpoint", 4, "ckpt verify " + path("empty"), {}},
      {"holds no checkpoint", 4, "ckpt info " + path("empty"), {}},
      {"has no checkpoint of step 7", 4, "ckpt info " + path("run") + " --step 7", {}},
      {"there is no such folder", 4, go_on + "x", {}},
      {"cannot be opened", 4, go_on, [&] { fs::remove(manifest); }},
      {"too few", 4, go_on, cut(manifest, 0)},
      {"does not end with its hash", 4, go_on, cut(manifest, 700)},
      {"does not end with its hash", 4, go_on, put(manifest, std::string(500, '{'))},
      {"its hash is", 4, go_on, [&] { flip(manifest); }},
      {"cannot be opened", 4, go_on, [&] { fs::remove(file); }},
      {"has 0 bytes, its manifest says", 4, go_on, cut(file, 0)},
      {"bytes, its manifest says", 4, go_on, cut(file, 1000)},
      {"chunk 0 of 1 has the hash", 4, go_on, [&] { flip(file); }},
      {"chunk 0 of 1 has the hash", 4, verify, [&] { flip(file); }},
      {"cannot be opened", 4, go_on,
       [&] {
         fs::rename(file, path("aside2"));
         fs::create_symlink(path("aside2"), file);
       }},
      {"regular file", 4, go_on,
       [&] {
         fs::remove(manifest);
         fs::create_directory(manifest);
       }},
      {"is of step 20", 4, "ckpt info " + path("run") + " --step 99",
       [&] { fs::copy(one, path("run/checkpoints/step-000000099")); }},
      {"--stop-at 20", 2, go_on + " --stop-at 20", {}},
      {"the run is complete", 11, go_on + " --set train.steps=15", {}},
  };
  EXPECT_GE(cases.size(), 20U);
  fs::copy(path("run"), path("good"), fs::copy_options::recursive);
  for (const Case& one_case : cases) {
    fs::remove_all(path("run"));
    fs::remove_all(path("other"));
    fs::copy(path("good"), path("run"), fs::copy_options::recursive);
    if (one_case.damage) one_case.damage();
    const CommandResult result = run_fourfold(one_case.command);
    EXPECT_EQ(result.code, one_case.code) << one_case.says << "\n" << result.text;
    EXPECT_EQ(count_lines(result.text, "error: "), 1U) << result.text;
    EXPECT_EQ(count_lines(result.text, one_case.says), 1U)
        << "\"" << one_case.says << "\" in: " << result.text;
    EXPECT_EQ(metrics("other"), "");
  }
}

}  // namespace
}  // namespace fourfold
