// Writing text with trained weights, through the binary.
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "support/command.h"
#include "support/pattern.h"
#include "support/step_metrics.h"

namespace fourfold {
namespace {

/// A run of a small model with 16 positions, so that texts outgrow the key/value cache.
class Generate : public FolderTest {
 protected:
  void train(const std::string& precision = "fp32") {
    std::string text;
    for (int i = 0; i < 300; ++i) text += format("The quick brown fox {} jumps.\n", i % 7);
    write_file_atomic(path("fox.txt"), text);
    const CommandResult outcome = run_command(format(
        "{} train configs/gpt-shakespeare-char.yaml --set data.path={} --set run.dir={} --set "
        "train.steps=60 --set lr_schedule.warmup_steps=5 --set model.hidden_size=32 --set "
        "model.num_layers=2 --set data.seq_length=16 --set model.max_position_embeddings=16 "
        "--set precision.compute={} --set sample.tokens=0 --set eval.batches=1 2>&1",
        FOURFOLD_BINARY, path("fox.txt"), path("run"), precision));
    ASSERT_EQ(outcome.code, 0) << outcome.text;
  }
  CommandResult generate(const std::string& options, const std::string& before = "") const {
    return run_command(
        format("{} {} generate {} {}", before, FOURFOLD_BINARY, path("run"), options));
  }
  std::string text(const std::string& options, const std::string& before = "") const {
    const CommandResult outcome = generate(options, before);
    EXPECT_EQ(outcome.code, 0) << options;
    return outcome.text;
  }
};

TEST_F(Generate, computing_all_tokens_again_gives_the_text_of_the_cache) {
  for (const char* precision : {"fp32", "fp64"}) {
    std::filesystem::remove_all(path("run"));
    train(precision);
    for (const char* how : {"--temperature 0", "--temperature 1 --seed 5",
                            "--temperature 1.5 --top-k 9 --top-p 0.9 --samples 2"})
      // 16 positions: the cache is full and begins anew many times.
      EXPECT_EQ(text(format("--prompt 'The q' --tokens 100 {}", how)),
                text(format("--prompt 'The q' --tokens 100 {} --no-cache", how)))
          << precision << " " << how;
  }
}

TEST_F(Generate, a_sample_is_the_same_alone_and_among_others) {
  train();
  const std::string options = "--prompt The --tokens 30 --temperature 1.2";
  const std::string all = text(options + " --samples 3");
  std::string expected;
  for (int number = 1; number <= 3; ++number)
    expected += format("{}=== sample {} of 3 ===\n{}", number == 1 ? "" : "\n", number,
                       text(format("{} --sample {}", options, number)));
  EXPECT_EQ(all, expected);
  EXPECT_EQ(text(options + " --sample 1"), text(options));
  EXPECT_NE(text(options + " --sample 2"), text(options));
}

TEST_F(Generate, the_prompt_comes_from_the_command_line_a_file_or_standard_input) {
  train();
  const std::string expected = text("--prompt 'brown fox' --tokens 20");
  EXPECT_EQ(expected.find("brown fox"), 0U);
  write_file_atomic(path("prompt.txt"), "brown fox");
  EXPECT_EQ(text(format("--prompt-file {} --tokens 20", path("prompt.txt"))), expected);
  EXPECT_EQ(text("--prompt-file - --tokens 20", "printf 'brown fox' |"), expected);
}

TEST_F(Generate, figures_go_to_standard_error) {
  train();
  const std::string options = "--prompt The --tokens 20 --stats";
  EXPECT_EQ(text(options + " 2> /dev/null"), text("--prompt The --tokens 20"));
  const std::string figures = text(options + " 2>&1 > /dev/null");
  EXPECT_EQ(figures.find("sample 1: 20 tokens in "), 0U) << figures;
  EXPECT_NE(figures.find(" tokens/s\n"), std::string::npos) << figures;
}

TEST_F(Generate, bad_options_are_answered_in_one_line) {
  train();
  struct Case {
    std::string options;
    int code;
    std::string expected;
  };
  for (const Case& c :
       std::vector<Case>{{"--top-p 0", 2, "--top-p 0: expected a number above 0 and at most 1"},
                         {"--top-p 1.01", 2, "--top-p 1.01: expected"},
                         {"--top-p nan", 2, "--top-p nan: expected"},
                         {"--temperature nan", 2, "--temperature nan: expected"},
                         {"--temperature -1", 2, "--temperature -1: expected"},
                         {"--top-k -1", 2, "--top-k"},
                         {"--samples 0", 2, "--samples"},
                         {"--sample 0", 2, "--sample"},
                         {"--sample 1 --samples 2", 2, "--samples"},
                         {"--prompt a --prompt-file b", 2, "--prompt"},
                         {format("--prompt-file {}", path("none.txt")), 3, "none.txt"},
                         {"--prompt '~'", 3, "the prompt"},
                         {"--step 17", 4, "run has no checkpoint of step 17; choose one of 60"}}) {
    const CommandResult outcome = generate(c.options + " --tokens 2 2>&1 > /dev/null");
    EXPECT_EQ(outcome.code, c.code) << c.options << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find(c.expected), std::string::npos) << c.options << "\n"
                                                                << outcome.text;
  }
  EXPECT_EQ(generate("--prompt 'The ~'").text, "") << "nothing of a prompt that is refused";
}

/// A run that writes texts while it is trained.
class Samples : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string text;
    for (int i = 0; i < 300; ++i) text += format("The quick brown fox {} jumps.\n", i % 7);
    write_file_atomic(path("fox.txt"), text);
  }
  CommandResult train(const std::string& name, const std::string& more) const {
    return run_fourfold(
        format("train configs/gpt-shakespeare-char.yaml --set data.path={} --set run.dir={} --set "
               "train.steps=12 --set lr_schedule.warmup_steps=2 --set model.hidden_size=32 --set "
               "model.num_layers=2 --set data.seq_length=16 --set model.dropout=0.1 --set "
               "train.global_batch_size=4 --set sample.tokens=30 --set 'sample.prompt=The q' "
               "--set eval.interval_steps=5 --set eval.batches=1 --set checkpoint.interval_steps=4 "
               "--set checkpoint.keep=9 --set run.threads=1 {}",
               path("fox.txt"), path(name), more));
  }
  void trained(const std::string& name, const std::string& more) const {
    const CommandResult result = train(name, more);
    ASSERT_EQ(result.code, 0) << result.text;
  }
  std::string text(const std::string& name) const { return read_file(path(name)); }
  /// A log without the time and level that begin each line.
  static std::string without_stamps(const std::string& log) {
    static const test::Pattern stamp("(^|\n)[0-9-]+ [0-9:.]+ info ");
    return stamp.replaced_in(log, "$1");
  }
  /// The texts in metrics.jsonl, by step.
  std::map<std::int64_t, std::string> samples(const std::string& name) const {
    std::map<std::int64_t, std::string> found;
    for (const auto& line : split(text(name + "/metrics.jsonl"), '\n')) {
      if (line.empty()) continue;
      const Json json = parse_json(line, name);
      if (const Json* sample = json.find("sample"))
        found[json.find("step")->as_integer()] = sample->as_string();
    }
    return found;
  }
};

TEST_F(Samples, texts_between_steps_are_those_of_the_weights_and_change_no_bit_of_the_training) {
  for (const char* grid : {"", "--set parallel.tensor.x=2 --set parallel.data=2"}) {
    SCOPED_TRACE(grid);
    for (const char* name : {"without", "with"}) std::filesystem::remove_all(path(name));
    trained("without", grid);
    trained("with", std::string(grid) + " --set sample.interval=4");
    EXPECT_TRUE(text("with/model.safetensors") == text("without/model.safetensors"));
    EXPECT_EQ(
        test::expect_equal_steps(test::steps_of(path("with")), test::steps_of(path("without")), 0),
        0);
    EXPECT_EQ(text("with/sample.txt"), text("without/sample.txt"));
    EXPECT_TRUE(samples("without").empty());
    const auto written = samples("with");
    ASSERT_EQ(written.size(), 2U) << "after steps 4 and 8; the last text is sample.txt";
    for (const auto& [step, sample] : written) {
      EXPECT_TRUE(sample.starts_with("The q")) << sample;
      const CommandResult again =
          run_command(format("{} generate {} --step {}", FOURFOLD_BINARY, path("with"), step));
      EXPECT_EQ(again.text, sample + "\n");
      std::string in_log = format("sample after step {}:\n{}\n", step, sample);
      EXPECT_NE(without_stamps(text("with/log.rank0.txt")).find(in_log), std::string::npos);
    }
  }
}

TEST_F(Samples, a_run_that_is_stopped_or_goes_back_has_each_text_once_and_may_change_how_often) {
  trained("whole", "--set sample.interval=2");
  trained("run", "--set sample.interval=2 --stop-at 6");
  trained("run", "--set sample.interval=2 --resume " + path("run/checkpoints/step-000000004"));
  EXPECT_EQ(samples("run"), samples("whole"));
  EXPECT_EQ(samples("run").size(), 5U);
  trained("other", "--set sample.interval=2 --stop-at 6");
  trained("other", "--set sample.interval=5");
  EXPECT_EQ(samples("other").size(), 4U) << "after steps 2, 4, 6 and 10";
  EXPECT_TRUE(text("other/model.safetensors") == text("whole/model.safetensors"));
  ASSERT_EQ(run_fourfold(format("report {} -o {}", path("run"), path("page.html"))).code, 0);
  const std::string page = text("page.html");
  for (const char* words : {"5 texts written during the training", "after step 10</p><pre>The q"})
    EXPECT_NE(page.find(words), std::string::npos) << words;
}

TEST_F(Samples, an_interval_without_a_text_is_refused) {
  const CommandResult result = train("run", "--set sample.interval=2 --set sample.tokens=0");
  EXPECT_EQ(result.code, 2) << result.text;
  EXPECT_NE(result.text.find("sample.interval = 2 asks for texts, but sample.tokens = 0 writes "
                             "none"),
            std::string::npos)
      << result.text;
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

}  // namespace
}  // namespace fourfold
