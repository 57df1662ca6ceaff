// A signal in any phase of a run: what was done is saved, the code is 75, and the same command then
// ends as a run to which nothing happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "data/png.h"
#include "support/launched_job.h"
#include "support/long_run.h"
#include "support/pattern.h"
#include "support/second_signal.h"
#include "unit/data/picture_files.h"

namespace fourfold::stop_test {
namespace {

namespace fs = std::filesystem;
using test::LaunchedJob;
using Words = std::vector<std::string>;

constexpr int stopped = 75;

/// One process, two threads of one, or two processes.
enum class RankKind : std::uint8_t { alone, threads, processes };

class Stop : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() /
           format("fourfold-stop-{}-{}",
                  testing::UnitTest::GetInstance()->current_test_info()->name(), getpid());
    fs::create_directories(dir_);
    std::string text;
    for (int i = 0; i < 900; ++i) text += format("The quick brown fox {} jumps.\n", i % 7);
    write_file_atomic(path("fox.txt"), text);
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  /// 30 short steps, of which every third is evaluated and every fourth is followed by a text, each
  /// as long as many steps; and another one at the end.
  Words training(const std::string& name, RankKind ranks) const {
    Words words;
    if (ranks == RankKind::processes) words = test::mpirun(2);
    words.insert(words.end(), {FOURFOLD_BINARY, "train",
                               FOURFOLD_SOURCE_DIR "/configs/gpt-shakespeare-char.yaml"});
    for (const std::string& set :
         {"data.path=" + path("fox.txt"), "run.dir=" + path(name), std::string("train.steps=30"),
          std::string("model.hidden_size=32"), std::string("model.num_layers=2"),
          std::string("data.seq_length=16"), std::string("model.max_position_embeddings=16"),
          std::string("train.global_batch_size=4"), std::string("train.micro_batch_size=2"),
          std::string("lr_schedule.warmup_steps=5"), std::string("eval.interval_steps=3"),
          std::string("eval.batches=40"), std::string("sample.interval=4"),
          std::string("sample.tokens=60"), std::string("checkpoint.interval_steps=5"),
          std::string("run.threads=1"), std::string("run.kernel_table=builtin"),
          format("parallel.data={}", ranks == RankKind::alone ? 1 : 2)})
      words.insert(words.end(), {std::string("--set"), set});
    return words;
  }

  struct Ended {
    int code = -1;
    std::string text;
  };
  Ended run(const Words& words, const LaunchedJob::Environment& environment = {}) {
    LaunchedJob job(words, folder_of_job(), environment);
    const int code = job.wait(test::hang_s).value_or(-1);
    return {code, job.output()};
  }
  std::string folder_of_job() {
    const std::string folder = path(format("job-{}", ++jobs_));
    fs::create_directories(folder);
    return folder;
  }

  /// Everything in metrics.jsonl that does not depend on the clock, and nothing else twice.
  std::string metrics(const std::string& name) const {
    static const test::Pattern timed(
        ",\"(step_time_s|tokens_per_s|tflops|mfu|hfu|exposed_communication_s|memory_bytes|"
        "peak_resident_bytes|val_time_s|compute_time_s|slowest_compute_time_s|slowest_rank)\":"
        "[^,}]*");
    return timed.replaced_in(read_file(path(name + "/metrics.jsonl")), "");
  }
  void expect_equal(const std::string& one, const std::string& other) const {
    EXPECT_EQ(metrics(one), metrics(other));
    for (const char* file : {"/model.safetensors", "/sample.txt"})
      EXPECT_TRUE(read_file(path(one + file)) == read_file(path(other + file))) << file;
  }
  /// The run that nothing happens to, made once for all that are compared with it.
  void make_whole(RankKind ranks) {
    const Ended whole = run(training("whole", ranks));
    ASSERT_EQ(whole.code, 0) << whole.text;
  }
  /// Starts it until all is done; every start before the last one must have been asked to stop.
  void go_on(const std::string& name, RankKind ranks) {
    const Ended end = run(training(name, ranks));
    // A signal may come when nothing is left to do.
    const bool is_over = end.code == 11 && end.text.find("the run is complete") != end.text.npos;
    EXPECT_TRUE(end.code == 0 || is_over) << end.code << "\n" << end.text;
    expect_equal("whole", name);
  }
  bool was_cut(const std::string& name) const {
    const auto latest = fs::path(path(name)) / "checkpoints";
    if (!fs::exists(latest / "LATEST")) return false;
    const std::string note = read_file((latest / "LATEST").string());
    return read_file((latest / note.substr(0, note.find(' ')) / "manifest.json").string())
               .find("\"untold\"") != std::string::npos;
  }

  fs::path dir_;
  int jobs_ = 0;
  std::mt19937 random_{20261129};
};

/// The signals that ask for a stop.
constexpr std::array signals = {SIGTERM, SIGUSR1, SIGUSR2, SIGINT};

TEST_F(Stop, at_any_time_on_any_rank_costs_nothing) {
  const int tries = is_long_run() ? 40 : 3;
  int codes[2] = {0, 0}, cut = 0;
  for (const RankKind ranks : {RankKind::alone, RankKind::threads, RankKind::processes}) {
    if (ranks == RankKind::processes && !test::has_command("mpirun")) continue;
    fs::remove_all(path("whole"));
    make_whole(ranks);
    for (int i = 0; i < tries; ++i) {
      const std::string name = format("stopped-{}-{}", static_cast<int>(ranks), i);
      const int signal = signals[random_() % signals.size()];
      const auto lines = static_cast<std::ptrdiff_t>(random_() % 30);
      const auto more = std::chrono::microseconds(random_() % 40'000);
      const bool is_to_all = random_() % 2 == 0;
      const auto chosen = random_() % 2;
      SCOPED_TRACE(format("{}: signal {} after {} steps and {} us, to {}", name, signal, lines,
                          more.count(), is_to_all ? "all" : format("rank {}", chosen)));
      LaunchedJob job(training(name, ranks), folder_of_job());
      test::wait_until(test::hang_s, [&] {
        return std::ranges::count(test::text_of(path(name + "/metrics.jsonl")), '\n') >= lines ||
               job.wait(0).has_value();
      });
      std::this_thread::sleep_for(more);
      if (ranks == RankKind::processes) {
        for (const auto& [rank, pid] : job.ranks())
          if (is_to_all || static_cast<std::size_t>(rank) == chosen) kill(pid, signal);
      } else if (!job.wait(0)) {
        kill(job.pid(), signal);
      }
      const int code = job.wait(test::hang_s).value_or(-1);
      ASSERT_TRUE(code == stopped || code == 0) << code << "\n" << job.output();
      ++codes[code == 0 ? 0 : 1];
      cut += was_cut(name) ? 1 : 0;
      go_on(name, ranks);
    }
  }
  std::printf("%d stopped, of which %d in an evaluation or a text; %d were done before\n", codes[1],
              cut, codes[0]);
}

TEST_F(Stop, while_the_state_is_loaded_ends_at_once_and_changes_nothing) {
  make_whole(RankKind::alone);
  Words part = training("run", RankKind::alone);
  part.insert(part.end(), {"--stop-at", "12"});
  ASSERT_EQ(run(part).code, 0);
  const std::string before = read_file(path("run/metrics.jsonl"));
  for (const int signal : signals) {
    const Ended end =
        run(training("run", RankKind::alone), {{"LD_PRELOAD", FOURFOLD_SIGNAL_AT_CALL},
                                               {"ASAN_OPTIONS", test::preload_allowed()},
                                               {"SIGNAL_AT", "pread"},
                                               {"SIGNAL_FILE", "safetensors"},
                                               {"SIGNAL_COUNT", "2"},
                                               {"SIGNAL_NUMBER", format("{}", signal)}});
    EXPECT_EQ(end.code, stopped) << end.text;
    EXPECT_NE(end.text.find("stopped, as asked, before anything was written"), std::string::npos)
        << end.text;
    EXPECT_EQ(read_file(path("run/metrics.jsonl")), before);
    EXPECT_FALSE(file_exists(path("run/run.lock"))) << "the lock stays";
  }
  go_on("run", RankKind::alone);
}

TEST_F(Stop, while_a_checkpoint_is_written_costs_nothing) {
  for (const RankKind ranks : {RankKind::alone, RankKind::processes}) {
    if (ranks == RankKind::processes && !test::has_command("mpirun")) continue;
    fs::remove_all(path("whole"));
    make_whole(ranks);
    for (const int count : {1, 2}) {
      if (ranks == RankKind::processes && count == 1) continue;
      const std::string name = format("run-{}-{}", static_cast<int>(ranks), count);
      LaunchedJob::Environment environment = {{"LD_PRELOAD", FOURFOLD_SIGNAL_AT_CALL},
                                              {"ASAN_OPTIONS", test::preload_allowed()},
                                              {"SIGNAL_AT", "fsync"},
                                              {"SIGNAL_FILE", "safetensors"},
                                              {"SIGNAL_COUNT", format("{}", count)},
                                              {"SIGNAL_NUMBER", format("{}", SIGUSR2)}};
      if (ranks == RankKind::processes) environment["SIGNAL_RANK"] = "0";
      const Ended end = run(training(name, ranks), environment);
      EXPECT_EQ(end.code, stopped) << end.text;
      go_on(name, ranks);
    }
  }
}

/// The last step is saved before the evaluation of the whole split, however long that takes, and
/// whatever the interval of checkpoints is. The split is twice as long in each further try, until
/// its evaluation takes so long on this machine that the run is killed in it.
TEST_F(Stop, a_run_that_is_killed_in_its_last_evaluation_has_saved_the_last_step) {
  const auto words_of = [&](const std::string& name) {
    Words words = training(name, RankKind::alone);
    std::ranges::replace(words, std::string("checkpoint.interval_steps=5"),
                         std::string("checkpoint.interval_steps=1000"));
    words.insert(words.end(), {"--set", "data.split=0.2"});
    return words;
  };
  std::string text = read_file(path("fox.txt"));
  text += text;
  bool is_killed = false;
  for (int tries = 0; tries < 10 && !is_killed; ++tries) {
    text += text;
    write_file_atomic(path("fox.txt"), text);
    fs::remove_all(path("killed"));
    LaunchedJob job(words_of("killed"), folder_of_job());
    ASSERT_TRUE(test::wait_until(test::hang_s, [&] {
      return was_cut("killed") || job.wait(0).has_value();
    })) << job.output();
    if (job.wait(0)) continue;
    kill(job.pid(), SIGKILL);
    job.wait(test::hang_s);
    is_killed = was_cut("killed");
  }
  ASSERT_TRUE(is_killed) << "the evaluation ends before it is seen";
  const Ended whole = run(words_of("whole"));
  ASSERT_EQ(whole.code, 0) << whole.text;
  const Ended end = run(words_of("killed"));
  EXPECT_EQ(end.code, 0) << end.text;
  EXPECT_NE(end.text.find("going on from step 30 of 30"), std::string::npos) << end.text;
  expect_equal("whole", "killed");
}

/// Alone and with ranks that are threads, each signal in a job of its own; they wait side by side.
TEST_F(Stop, row_25_asked_for_again_a_second_later_ends_a_run_at_once) {
  std::array<int, signals.size()> codes{};
  std::vector<std::thread> jobs;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    const std::string folder = path(format("twice-{}", i)), job_folder = folder_of_job();
    Words words{FOURFOLD_BINARY, "train", FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml"};
    for (const std::string& set :
         {"run.dir=" + folder, std::string("model.hidden_size=128"), std::string("run.threads=1"),
          std::string("model.num_layers=4"), std::string("train.steps=100000"),
          std::string("train.global_batch_size=64"), std::string("train.micro_batch_size=1"),
          std::string("precision.compute=fp64"), format("parallel.data={}", i % 2 + 1)})
      words.insert(words.end(), {std::string("--set"), set});
    jobs.emplace_back([=, &codes] {
      const auto start = [&] { return std::make_unique<LaunchedJob>(words, job_folder); };
      codes[i] = test::code_after_second_signal(start, folder, signals[i]);
    });
  }
  for (std::thread& job : jobs) job.join();
  for (std::size_t i = 0; i < signals.size(); ++i) EXPECT_EQ(codes[i], 128 + signals[i]);
}

/// The loops of commands that nobody asks to save (LOOPS of tests/structure/check_loops.py).
TEST_F(Stop, ends_other_commands_at_once_and_leaves_nothing_that_is_half_written) {
  make_whole(RankKind::alone);
  write_file_atomic(path("unet.yaml"),
                    "model: {kind: unet}\n"
                    "unet: {picture: [8, 8, 3], channels: 8, channel_mult: [1, 2], num_res_blocks: "
                    "1, attention_resolutions: [4], num_attention_heads: 2, norm_groups: 4, "
                    "num_classes: 4, class_conditional: true}\n"
                    "diffusion: {steps: 200}\ndata: {format: synthetic, split: 0.99}\n"
                    "train: {steps: 2, global_batch_size: 4}\neval: {interval_steps: 0}\n");
  const Ended trained = run({FOURFOLD_BINARY, "train", path("unet.yaml"), "--set",
                             "run.dir=" + path("unet"), "--set", "run.threads=1"});
  ASSERT_EQ(trained.code, 0) << trained.text;
  for (int picture = 0; picture < 40; ++picture)
    data::write_picture_file(path(format("pictures/{}/{}.png", picture % 4, picture)),
                             data::png_bytes(data::made_png(picture, {8, 8, 3})));
  std::string text;
  for (int i = 0; i < 100; ++i) text += read_file(path("fox.txt"));
  write_file_atomic(path("long.txt"), text);
  const std::vector<Words> commands = {
      {"eval", path("whole"), "--text", path("long.txt")},
      {"eval", path("unet"), "--data", path("pictures")},
      {"generate", path("whole"), "--tokens", "100000"},
      {"generate", path("unet"), "--samples", "1000", "-o", "OUT"},
      {"data", "tokenize", path("long.txt"), "-o", "OUT", "--tokenizer", "byte"}};
  double longest_s = 0;
  int ended = 0;
  for (const Words& command : commands) {
    for (int i = 0; i < (is_long_run() ? 21 : 1); ++i) {
      Words words = command;
      const std::string out = path(format("out-{}.png", jobs_));
      std::ranges::replace(words, "OUT", out);
      words.insert(words.begin(), FOURFOLD_BINARY);
      LaunchedJob job(words, folder_of_job());
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 500'000));
      const auto sent = std::chrono::steady_clock::now();
      if (!job.wait(0)) kill(job.pid(), SIGTERM);
      const int code = job.wait(test::hang_s).value_or(-1);
      longest_s = std::max(longest_s, test::seconds_since(sent));
      ASSERT_TRUE(code == 0 || code == 128 + SIGTERM) << words[1] << " " << code << "\n"
                                                      << job.output();
      ended += code == 0 ? 0 : 1;
      // The index of a set comes last, and files come with their ends.
      for (const char* part : {".bin", ".json"})
        EXPECT_TRUE(!file_exists(out + ".idx") || file_exists(out + part)) << part;
      EXPECT_TRUE(!file_exists(out) || read_file(out).find("IEND") != std::string::npos);
    }
  }
  std::printf("%d ended by the signal, at most %.1f s after it\n", ended, longest_s);
}

}  // namespace
}  // namespace fourfold::stop_test
