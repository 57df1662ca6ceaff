// The binary as a user meets it: what it prints, what it leaves behind, how it ends.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = 0;
  std::string text;  // standard output and standard error
};

Outcome fourfold_run(const std::string& arguments) {
  const std::string command =
      format("cd {} && {} {} 2>&1", FOURFOLD_SOURCE_DIR, FOURFOLD_BINARY, arguments);
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// A folder of its own for each test, removed afterwards.
class Cli : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::temp_directory_path() / format("fourfold-{}-{}", info->name(), getpid());
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  Outcome train(const std::string& run, const std::string& more = "") const {
    return fourfold_run(format("train configs/gpt-tiny.yaml --set run.dir={} {}", path(run), more));
  }

  fs::path dir_;
};

std::vector<Json> metrics_of(const std::string& run_dir) {
  std::vector<Json> lines;
  const std::string text = read_file(run_dir + "/metrics.jsonl");
  for (const auto& line : split(text, '\n'))
    if (!line.empty()) lines.push_back(parse_json(line, "metrics.jsonl"));
  return lines;
}

TEST_F(Cli, training_leaves_metrics_config_weights_and_tokenizer) {
  const Outcome outcome = train("a");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const char* file :
       {"metrics.jsonl", "config.resolved.yaml", "model.safetensors", "tokenizer.json", "plan.txt"})
    EXPECT_TRUE(file_exists(path("a") + "/" + file)) << file;
  const auto lines = metrics_of(path("a"));
  ASSERT_EQ(lines.size(), 20U);
  for (const char* key :
       {"step", "loss", "lr", "grad_norm", "step_time_s", "tokens_per_s", "tflops", "memory_bytes"})
    EXPECT_NE(lines[0].find(key), nullptr) << key;
  EXPECT_NE(lines.back().find("val_loss"), nullptr);
  EXPECT_LT(lines.back().find("loss")->as_double(), lines.front().find("loss")->as_double());
}

TEST_F(Cli, two_runs_of_one_config_are_bit_equal) {
  ASSERT_EQ(train("a").code, 0);
  ASSERT_EQ(train("b").code, 0);
  EXPECT_EQ(read_file(path("a") + "/model.safetensors"),
            read_file(path("b") + "/model.safetensors"));
  const auto a = metrics_of(path("a")), b = metrics_of(path("b"));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(*a[i].find("loss"), *b[i].find("loss"));
    EXPECT_EQ(*a[i].find("grad_norm"), *b[i].find("grad_norm"));
  }
}

TEST_F(Cli, the_resolved_config_repeats_the_run) {
  ASSERT_EQ(train("a", "--set train.steps=5 --set optimizer.lr=2e-3").code, 0);
  const Outcome again =
      fourfold_run(format("train {}/config.resolved.yaml --set run.dir={}", path("a"), path("b")));
  ASSERT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(read_file(path("a") + "/model.safetensors"),
            read_file(path("b") + "/model.safetensors"));
}

TEST_F(Cli, recomputation_changes_no_bit) {
  ASSERT_EQ(train("a").code, 0);
  ASSERT_EQ(train("b", "--set memory.activation_checkpointing=full").code, 0);
  EXPECT_EQ(read_file(path("a") + "/model.safetensors"),
            read_file(path("b") + "/model.safetensors"));
}

TEST_F(Cli, an_earlier_run_is_not_overwritten_unless_asked) {
  ASSERT_EQ(train("a", "--set train.steps=2").code, 0);
  const std::string before = read_file(path("a") + "/metrics.jsonl");
  const Outcome refused = train("a", "--set train.steps=2");
  EXPECT_EQ(refused.code, 11) << refused.text;
  EXPECT_NE(refused.text.find("--overwrite"), std::string::npos) << refused.text;
  EXPECT_EQ(read_file(path("a") + "/metrics.jsonl"), before);
  EXPECT_EQ(train("a", "--set train.steps=2 --overwrite").code, 0);
}

TEST_F(Cli, a_text_of_the_user_trains_and_is_continued) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "The quick brown fox jumps over the lazy dog.\n";
  write_file_atomic(path("fox.txt"), text);
  const Outcome outcome =
      fourfold_run(format("train configs/gpt-shakespeare-char.yaml --set data.path={} --set "
                          "run.dir={} --set train.steps=60 --set "
                          "lr_schedule.warmup_steps=5 --set model.hidden_size=32 --set "
                          "model.num_layers=1 --set sample.tokens=30",
                          path("fox.txt"), path("run")));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("sample (30 tokens"), std::string::npos) << outcome.text;
  const std::string generate =
      format("generate {} --prompt 'The quick' --tokens 20 --temperature 0", path("run"));
  const Outcome first = fourfold_run(generate), second = fourfold_run(generate);
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_EQ(first.text, second.text);
  EXPECT_TRUE(first.text.starts_with("The quick")) << first.text;
  EXPECT_EQ(first.text.size(), std::string("The quick").size() + 20 + 1) << first.text;
  EXPECT_EQ(fourfold_run(format("generate {} --prompt 'é'", path("run"))).code, 3);
}

TEST_F(Cli, a_program_prints_reads_back_and_verifies_and_a_broken_one_does_not) {
  const Outcome printed = fourfold_run("program configs/gpt-tiny.yaml --program all");
  ASSERT_EQ(printed.code, 0);
  write_file_atomic(path("all.txt"), printed.text);
  EXPECT_EQ(fourfold_run("verify --text " + path("all.txt")).code, 0);

  std::string broken = printed.text;
  const auto wait = broken.find("math  wait");
  ASSERT_NE(wait, std::string::npos);
  broken.erase(wait - 2, broken.find('\n', wait) - wait + 3);
  write_file_atomic(path("broken.txt"), broken);
  const Outcome refused = fourfold_run("verify --text " + path("broken.txt"));
  EXPECT_EQ(refused.code, 2) << refused.text;
  EXPECT_NE(refused.text.find("race"), std::string::npos) << refused.text;
}

TEST_F(Cli, plan_verify_and_config_check_say_what_a_run_would_be) {
  const Outcome plan = fourfold_run("plan configs/gpt2-124m.yaml");
  EXPECT_EQ(plan.code, 0) << plan.text;
  EXPECT_NE(plan.text.find("124,439,808"), std::string::npos) << plan.text;
  EXPECT_NE(fourfold_run("verify configs/gpt-tiny.yaml").text.find("no faults"), std::string::npos);
  EXPECT_EQ(fourfold_run("config check configs/gpt-tiny.yaml").code, 0);
}

TEST_F(Cli, every_shipped_config_is_good) {
  for (const auto& entry : fs::directory_iterator(std::string(FOURFOLD_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    const Outcome outcome = fourfold_run("config check " + entry.path().string());
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

struct Mistake {
  std::string arguments;
  int code;
  std::string says;
};

TEST_F(Cli, mistakes_end_with_their_code_and_one_message_that_says_what_to_do) {
  write_file_atomic(path("empty.txt"), "");
  const std::string text_run = "train configs/gpt-shakespeare-char.yaml --set run.dir=" + path("x");
  const std::vector<Mistake> mistakes = {
      {"", 2, "subcommand"},
      {"trian configs/gpt-tiny.yaml", 2, "Run with --help"},
      {"train", 2, "CONFIG"},
      {"train no-such.yaml", 2, "no-such.yaml"},
      {"train configs/gpt-tiny.yaml --set model.hiden_size=64", 2, "hidden_size"},
      {"train configs/gpt-tiny.yaml --set model.hidden_size=33", 2, "num_attention_heads"},
      {"train configs/gpt-tiny.yaml --set train.micro_batch_size=3", 2, "micro_batch_size"},
      {"train configs/gpt-tiny.yaml --set optimizer.lr=-1", 2, "optimizer.lr"},
      {"train configs/gpt-tiny.yaml --set precision.compute=fp8", 2, "fp32"},
      {"train configs/gpt-tiny.yaml --set nothing", 2, "key=value"},
      {text_run + " --set data.path=no-such.txt", 3, "no-such.txt"},
      {text_run + " --set data.path=" + path("empty.txt"), 3, "empty"},
      {text_run + " --set data.path=configs", 3, "configs"},
      {text_run + " --set data.path=README.md --set model.vocab_size=5", 2, "model.vocab_size"},
      {"program configs/gpt-tiny.yaml --program trian", 2, "evaluate"},
      {"verify", 2, "CONFIG"},
      {"verify --text no-such.txt", 2, "no-such.txt"},
      {"generate no-such-run", 4, "no-such-run"},
      {"train configs/gpt-tiny.yaml --set run.dir=/proc/nowhere", 6, "/proc/nowhere"},
  };
  for (const Mistake& mistake : mistakes) {
    const Outcome outcome = fourfold_run(mistake.arguments);
    EXPECT_EQ(outcome.code, mistake.code) << mistake.arguments << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find(mistake.says), std::string::npos) << mistake.arguments << "\n"
                                                                  << outcome.text;
  }
  EXPECT_FALSE(file_exists(path("x")));
}

TEST_F(Cli, a_run_that_does_not_fit_is_refused_before_it_starts) {
  const Outcome outcome =
      train("a", "--set model.hidden_size=65536 --set model.num_attention_heads=64");
  EXPECT_EQ(outcome.code, 5) << outcome.text;
  EXPECT_NE(outcome.text.find("GiB"), std::string::npos) << outcome.text;
  EXPECT_FALSE(file_exists(path("a")));
}

TEST_F(Cli, numbers_that_go_bad_stop_the_run_with_code_7) {
  const Outcome outcome =
      train("a", "--set optimizer.lr=1e30 --set optimizer.grad_clip=0 --set lr_schedule.min_lr=0");
  EXPECT_EQ(outcome.code, 7) << outcome.text;
  EXPECT_NE(outcome.text.find("step"), std::string::npos) << outcome.text;
}

TEST_F(Cli, a_dry_run_writes_nothing) {
  EXPECT_EQ(train("a", "--dry-run").code, 0);
  EXPECT_FALSE(file_exists(path("a")));
}

}  // namespace
}  // namespace fourfold
