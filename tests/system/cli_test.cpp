// The binary as a user meets it: what it prints, what it leaves, how it ends.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "support/command.h"
#include "support/command_cost.h"
#include "support/long_run.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

using Outcome = CommandResult;

class Cli : public FolderTest {
 protected:
  Outcome train(const std::string& run, const std::string& more = "") const {
    return run_fourfold(format("train configs/gpt-tiny.yaml --set run.dir={} {}", path(run), more));
  }
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
      run_fourfold(format("train {}/config.resolved.yaml --set run.dir={}", path("a"), path("b")));
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
      run_fourfold(format("train configs/gpt-shakespeare-char.yaml --set data.path={} --set "
                          "run.dir={} --set train.steps=60 --set "
                          "lr_schedule.warmup_steps=5 --set model.hidden_size=32 --set "
                          "model.num_layers=1 --set sample.tokens=30",
                          path("fox.txt"), path("run")));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("sample (30 tokens"), std::string::npos) << outcome.text;
  const std::string generate =
      format("generate {} --prompt 'The quick' --tokens 20 --temperature 0", path("run"));
  const Outcome first = run_fourfold(generate), second = run_fourfold(generate);
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_EQ(first.text, second.text);
  EXPECT_TRUE(first.text.starts_with("The quick")) << first.text;
  EXPECT_EQ(first.text.size(), std::string("The quick").size() + 20 + 1) << first.text;
  EXPECT_EQ(run_fourfold(format("generate {} --prompt 'é'", path("run"))).code, 3);
}

TEST_F(Cli, a_program_prints_reads_back_and_verifies_and_a_broken_one_does_not) {
  const Outcome printed = run_fourfold("program configs/gpt-tiny.yaml --program all");
  ASSERT_EQ(printed.code, 0);
  write_file_atomic(path("all.txt"), printed.text);
  EXPECT_EQ(run_fourfold("verify --text " + path("all.txt")).code, 0);
  const Outcome of_one_rank =
      run_fourfold("verify --text " + path("all.txt") + " --of configs/gpt-tiny.yaml");
  EXPECT_EQ(of_one_rank.code, 2);
  EXPECT_NE(of_one_rank.text.find("all.txt:1: holds the programs of one rank"), std::string::npos)
      << of_one_rank.text;

  std::string broken = printed.text;
  const auto wait = broken.find("math  wait");
  ASSERT_NE(wait, std::string::npos);
  broken.erase(wait - 2, broken.find('\n', wait) - wait + 3);
  write_file_atomic(path("broken.txt"), broken);
  const Outcome refused = run_fourfold("verify --text " + path("broken.txt"));
  EXPECT_EQ(refused.code, 2) << refused.text;
  EXPECT_NE(refused.text.find("race"), std::string::npos) << refused.text;
}

TEST_F(Cli, a_job_of_many_ranks_is_one_text_from_which_alone_it_is_proved) {
  const std::string grid = "configs/gpt-tiny.yaml --set parallel.tensor.x=2 --ranks 4";
  const Outcome printed = run_fourfold("program " + grid + " --job");
  ASSERT_EQ(printed.code, 0);
  EXPECT_TRUE(printed.text.starts_with(
      "job text version 1\njob of 4 ranks in 1 classes\nranks 0..3 class 0\n"));
  write_file_atomic(path("job.txt"), printed.text);
  const Outcome proved = run_fourfold("verify --text " + path("job.txt"));
  EXPECT_EQ(proved.code, 0) << proved.text;
  EXPECT_NE(proved.text.find("ranks     4,"), std::string::npos) << proved.text;

  const std::string two_ranks = "ranks 0..1 class 0";
  std::string cut = printed.text;
  cut.replace(cut.find("ranks 0..3"), two_ranks.size(), two_ranks);
  write_file_atomic(path("cut.txt"), cut);
  const Outcome refused = run_fourfold("verify --text " + path("cut.txt"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.text.find("cut.txt:5: read "), std::string::npos) << refused.text;
}

TEST_F(Cli, the_specification_of_a_job_is_one_text_whatever_its_grid) {
  const std::string config = "program configs/gpt-tiny.yaml --specification";
  const Outcome serial = run_fourfold(config);
  ASSERT_EQ(serial.code, 0) << serial.text;
  EXPECT_TRUE(serial.text.starts_with("job text version 1\njob of 1 ranks in 1 classes\n"));
  EXPECT_NE(serial.text.find("feeds       micros 1 samples 8 first 0 count 8\n"), std::string::npos)
      << "the whole batch at once";
  EXPECT_NE(serial.text.find(" by reference"), std::string::npos);
  write_file_atomic(path("specification.txt"), serial.text);
  const Outcome proved = run_fourfold("verify --text " + path("specification.txt"));
  EXPECT_EQ(proved.code, 0) << proved.text;
  const std::string grid = " --set parallel.tensor.x=2 --set parallel.data=2";
  const Outcome of_four = run_fourfold(config + grid + " --set train.micro_batch_size=2");
  EXPECT_EQ(of_four.text, serial.text);
}

TEST_F(Cli, what_a_pass_makes_is_printed_and_passes_may_be_left_out) {
  const std::string program = "program configs/gpt-tiny.yaml --program train ";
  const Outcome sharded = run_fourfold(program + "--set parallel.tensor.x=2 --after choose_blocks");
  EXPECT_EQ(sharded.code, 0) << sharded.text;
  EXPECT_NE(sharded.text.find("all_reduce"), std::string::npos) << sharded.text;
  EXPECT_NE(sharded.text.find("along x"), std::string::npos) << sharded.text;
  const Outcome usual = run_fourfold(program),
                apart = run_fourfold(program + "--without fuse_update --without fuse_sums");
  EXPECT_EQ(usual.text.find("  adamw  "), std::string::npos);
  EXPECT_NE(apart.text.find("  adamw  "), std::string::npos);
  EXPECT_NE(apart.text.find("  squared_norm  "), std::string::npos);
}

TEST_F(Cli, plan_verify_and_config_check_say_what_a_run_would_be) {
  const Outcome plan = run_fourfold("plan configs/gpt2-124m.yaml");
  EXPECT_EQ(plan.code, 0) << plan.text;
  EXPECT_NE(plan.text.find("124,439,808"), std::string::npos) << plan.text;
  const Outcome verified = run_fourfold("verify configs/gpt-tiny.yaml");
  EXPECT_NE(verified.text.find("no faults"), std::string::npos) << verified.text;
  EXPECT_NE(verified.text.find("ranks     1,"), std::string::npos) << verified.text;
  EXPECT_EQ(run_fourfold("config check configs/gpt-tiny.yaml").code, 0);
}

TEST_F(Cli, a_job_is_proved_equal_to_the_serial_program) {
  const std::string config = "configs/gpt-tiny.yaml --set parallel.tensor.x=2";
  const Outcome proved = run_fourfold("verify " + config);
  EXPECT_EQ(proved.code, 0) << proved.text;
  EXPECT_NE(proved.text.find("\nequal     to the serial program: init, train, evaluate, "),
            std::string::npos)
      << proved.text;
  const Outcome rules = run_fourfold("verify " + config + " --no-equal");
  EXPECT_EQ(rules.code, 0) << rules.text;
  EXPECT_EQ(rules.text.find("equal"), std::string::npos) << rules.text;

  const Outcome printed = run_fourfold("program " + config + " --job");
  write_file_atomic(path("job.txt"), printed.text);
  const Outcome of_text = run_fourfold("verify --text " + path("job.txt") + " --of " + config);
  EXPECT_EQ(of_text.code, 0) << of_text.text;
  EXPECT_NE(of_text.text.find("\nequal     to the serial program: "), std::string::npos)
      << of_text.text;

  // No rule knows what a learning rate is.
  const std::string right = "adamw_list", field = "step.lr";
  std::string other = printed.text;
  const auto update = other.find(field, other.find(right));
  ASSERT_NE(update, std::string::npos);
  other.replace(update, field.size(), "result.scale");
  write_file_atomic(path("other.txt"), other);
  EXPECT_EQ(run_fourfold("verify --text " + path("other.txt")).code, 0);
  const Outcome refused = run_fourfold("verify --text " + path("other.txt") + " --of " + config);
  EXPECT_EQ(refused.code, 2) << refused.text;
  EXPECT_NE(refused.text.find("equal: rank 0: train, step 1: "), std::string::npos) << refused.text;
  EXPECT_NE(refused.text.find("the first to differ: rank 0: train: update: instruction "),
            std::string::npos)
      << refused.text;

  const Outcome of_another = run_fourfold("verify --text " + path("job.txt") + " --of " + config +
                                          " --set model.num_layers=3");
  EXPECT_EQ(of_another.code, 2) << of_another.text;
  EXPECT_NE(of_another.text.find("1 fault found\n  equal: the specification is of another run: "),
            std::string::npos)
      << of_another.text;
}

TEST_F(Cli, a_run_of_several_ranks_is_compared_with_the_serial_program_before_it_starts) {
  const auto train = [&](const std::string& environment, const std::string& name,
                         const std::string& more) {
    return run_command(
        format("env -u FOURFOLD_EQUAL {} {} train configs/gpt-tiny.yaml --set run.dir={} --set "
               "train.steps=1 --set log.level=debug {} 2>&1",
               environment, FOURFOLD_BINARY, path(name), more));
  };
  const std::string words = "with the serial program";
  const Outcome compared = train("", "compared", "--set parallel.data=2");
  EXPECT_EQ(compared.code, 0) << compared.text;
  EXPECT_NE(compared.text.find("compared " + words + " in "), std::string::npos) << compared.text;
  const Outcome large = train("", "large", "--set parallel.data=2 --set model.hidden_size=768");
  EXPECT_NE(large.text.find("not compared " + words + ", as that takes some "), std::string::npos)
      << large.text;
  const Outcome left_out = train("FOURFOLD_EQUAL=never", "never", "--set parallel.data=2");
  EXPECT_EQ(left_out.code, 0) << left_out.text;
  EXPECT_EQ(left_out.text.find(words), std::string::npos) << left_out.text;
  const Outcome mistaken = train("FOURFOLD_EQUAL=nver", "mistaken", "--set parallel.data=2");
  EXPECT_EQ(mistaken.code, 2) << mistaken.text;
  EXPECT_NE(mistaken.text.find("FOURFOLD_EQUAL is 'nver'"), std::string::npos) << mistaken.text;
}

TEST_F(Cli, what_takes_long_to_prove_equal_is_left_out) {
  const Outcome large = run_fourfold("verify configs/gpt2-124m.yaml");
  EXPECT_EQ(large.code, 0) << large.text;
  EXPECT_NE(large.text.find("\nequal     left out, as it takes some "), std::string::npos)
      << large.text;
  const Outcome many = run_fourfold(
      "verify configs/gpt-tiny.yaml --set train.global_batch_size=64 --ranks 64 --set "
      "train.micro_batch_size=1");
  EXPECT_NE(many.text.find("equal     left out, as it takes 64 ranks, more than 32"),
            std::string::npos)
      << many.text;
}

TEST_F(Cli, every_shipped_config_is_good) {
  for (const auto& entry :
       fs::recursive_directory_iterator(std::string(FOURFOLD_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    if (entry.path().parent_path().filename() == "machines") continue;  // cluster_file_test.cpp
    const Outcome outcome = run_fourfold("config check " + entry.path().string());
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

/// gpt-tiny on a grid of eight ranks, each axis with two.
const std::string on_eight_ranks =
    "configs/gpt-tiny.yaml --set 'parallel.tensor={x: 2, y: 2, z: 2}' ";

/// True if a text has a line with these words in this order, whatever spaces stand between them.
bool has_line(const std::string& text, const std::string& words) {
  for (const std::string& line : split(text, '\n')) {
    std::string folded;
    for (const std::string& word : split(line, ' '))
      if (!word.empty()) folded += (folded.empty() ? "" : " ") + word;
    if (folded.find(words) != std::string::npos) return true;
  }
  return false;
}

TEST_F(Cli, plan_shows_grid_batch_shapes_memory_and_what_ranks_send) {
  const Outcome plan = run_fourfold("plan " + on_eight_ranks);
  ASSERT_EQ(plan.code, 0) << plan.text;
  for (const char* words :
       {"grid 8 ranks = x 2 * y 2 * z 2 * data 1, axonn",
        "batch 8 = 4 micro x 1 accumulation x 2 z; 16 tokens each",
        "blocks.*.attn.qkv.weight 32x3x2x16 8x3x1x16 16x3x1x16", "wte.weight 64x32 8x32 16x32",
        "blocks.*.mlp.up.bias 128 128 64", "memory of a rank", "weights in use",
        // 2 blocks x 4 weights, gathered once: 32 x 96 + 32 x 32 + 2 x 32 x 128 elements a block,
        // of which x and y leave a quarter.
        "all_gather embedding 2 3.00 KiB 1.50 KiB", "linear 8 24.0 KiB 12.0 KiB",
        "reduce_scatter embedding 2 3.00 KiB 1.50 KiB"})
    EXPECT_TRUE(has_line(plan.text, words)) << words << "\n" << plan.text;
  // The gradients of biases are summed by the collective of a norm's, which is complete first.
  const Outcome joined =
      run_fourfold("plan configs/gpt-tiny.yaml --set parallel.tensor.x=2 --ranks 4");
  EXPECT_TRUE(has_line(joined.text, "bias joined 1.38 KiB 1.38 KiB")) << joined.text;
}

TEST_F(Cli, the_number_of_ranks_settles_what_the_grid_leaves_open) {
  const Outcome plan = run_fourfold("plan " + on_eight_ranks +
                                    "--ranks 16 --set "
                                    "train.micro_batch_size=2");
  EXPECT_TRUE(has_line(plan.text, "grid 16 ranks = x 2 * y 2 * z 2 * data 2")) << plan.text;
  const Outcome alone = run_fourfold("plan configs/gpt-tiny.yaml");
  EXPECT_TRUE(has_line(alone.text, "grid 1 rank")) << alone.text;
  EXPECT_TRUE(has_line(alone.text, "nothing: one rank")) << alone.text;
  const Outcome open =
      run_fourfold("plan configs/gpt-tiny.yaml --ranks 8 --set train.micro_batch_size=auto");
  EXPECT_TRUE(has_line(open.text, "batch 8 = 1 micro x 1 accumulation x 8 data; 16 tokens each"))
      << open.text;
}

TEST_F(Cli, every_rank_has_a_program_of_its_own) {
  const Outcome first = run_fourfold("program " + on_eight_ranks),
                last = run_fourfold("program " + on_eight_ranks + "--rank 7");
  EXPECT_EQ(first.text, run_fourfold("program " + on_eight_ranks + "--rank 0").text);
  EXPECT_TRUE(has_line(first.text, "rank 0 of 8")) << first.text.substr(0, 500);
  EXPECT_TRUE(has_line(last.text, "rank 7 of 8")) << last.text.substr(0, 500);
  EXPECT_TRUE(has_line(last.text, "samples 8 first 4 count 4")) << last.text.substr(0, 500);
  const Outcome more = run_fourfold("program " + on_eight_ranks +
                                    "--ranks 16 --rank 15 --program evaluate --set "
                                    "train.micro_batch_size=2");
  EXPECT_TRUE(has_line(more.text, "rank 15 of 16")) << more.text.substr(0, 500);
  EXPECT_TRUE(has_line(more.text, "program evaluate")) << more.text.substr(0, 500);
}

TEST_F(Cli, verify_proves_the_programs_of_all_ranks) {
  const Outcome outcome =
      run_fourfold("verify " + on_eight_ranks + "--ranks 16 --set train.micro_batch_size=2");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const char* words : {"ranks 16,", "to compile,", "to verify", "train"})
    EXPECT_TRUE(has_line(outcome.text, words)) << words << "\n" << outcome.text;
}

TEST_F(Cli, published_sizes_are_planned_and_verified_on_any_machine) {
  // Memory of an A100 of the paper, in GiB.
  constexpr double most = 40e9 / (1024.0 * 1024 * 1024);
  for (const char* name : {"5b", "10b", "20b", "40b", "80b"}) {
    const Outcome plan = run_fourfold(format("plan configs/paper/gpt-{}.yaml", name));
    ASSERT_EQ(plan.code, 0) << plan.text;
    const auto number = [&](const std::string& before) {
      const auto place = plan.text.find(before);
      EXPECT_NE(place, std::string::npos) << plan.text;
      EXPECT_TRUE(has_line(plan.text, before) && plan.text.find("GiB", place) < place + 100);
      return std::stod(plan.text.substr(place + before.size()));
    };
    // The copy lies in the memory of the host there.
    const double wanted = number("memory of a rank") - number("copy for checkpoints ");
    EXPECT_LT(wanted, most) << plan.text;
  }
  const Outcome verified = run_fourfold("verify configs/paper/gpt-5b.yaml");
  EXPECT_EQ(verified.code, 0) << verified.text;
  EXPECT_TRUE(has_line(verified.text, "ranks 64,")) << verified.text;
  if (!is_long_run()) return;
  const Outcome largest = run_fourfold("verify configs/paper/gpt-80b.yaml");
  EXPECT_EQ(largest.code, 0) << largest.text;
  EXPECT_TRUE(has_line(largest.text, "ranks 1,024,")) << largest.text;
}

TEST_F(Cli, long_steps_of_a_thousand_ranks_are_planned_within_64_mib) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own memory counts as resident";
#endif
  // Libraries take 15 MiB, where CUDA is linked more.
  const std::int64_t usual = test::cost_of({"--version"}).peak_bytes;
  for (const char* samples : {"8", "1"}) {
    const test::Cost cost = test::cost_of({"plan", "configs/paper/gpt-80b.yaml", "--set",
                                           format("train.micro_batch_size={}", samples)});
    EXPECT_EQ(cost.code, 0);
    EXPECT_LE(cost.peak_bytes - usual, std::int64_t{49} << 20) << samples;
  }
}

struct Mistake {
  std::string arguments;
  int code;
  std::string says;
};

TEST_F(Cli, mistakes_end_with_their_code_and_one_message_that_says_what_to_do) {
  write_file_atomic(path("empty.txt"), "");
  fs::create_directory(path("nothing"));
  const std::string text_run = "train configs/gpt-shakespeare-char.yaml --set run.dir=" + path("x");
  const std::vector<Mistake> mistakes = {
      {"", 2, "subcommand"},
      {"trian configs/gpt-tiny.yaml", 2, "did you mean 'train'?"},
      {"help trian", 2, "did you mean 'train'?"},
      {"help ckpt verfy", 2, "did you mean 'verify'?"},
      {"train", 2, "CONFIG"},
      {"train no-such.yaml", 2, "no-such.yaml"},
      {"train configs/gpt-tiny.yaml --set model.hiden_size=64", 2, "hidden_size"},
      {"train configs/gpt-tiny.yaml --set model.hidden_size=33", 2, "num_attention_heads"},
      {"train configs/gpt-tiny.yaml --set train.micro_batch_size=3", 2, "micro_batch_size"},
      {"train configs/gpt-tiny.yaml --set optimizer.lr=-1", 2, "optimizer.lr"},
      {"train configs/gpt-tiny.yaml --set precision.compute=fp8", 2, "fp32, fp64 or bf16"},
      {"train configs/gpt-tiny.yaml --set nothing", 2, "key=value"},
      {text_run + " --set data.path=no-such.txt", 3, "no-such.txt"},
      {text_run + " --set data.path=" + path("empty.txt"), 3, "empty"},
      {text_run + " --set data.path=" + path("nothing"), 3, "nothing"},
      {text_run + " --set data.path=README.md --set model.vocab_size=5", 2, "model.vocab_size"},
      {"program configs/gpt-tiny.yaml --program trian", 2, "evaluate"},
      {"program " + on_eight_ranks + "--rank 8", 2, "choose one from 0 to 7"},
      {"program " + on_eight_ranks + "--rank -1", 2, "--rank"},
      {"program " + on_eight_ranks + "--rank x", 2, "--rank"},
      {"program configs/gpt-tiny.yaml --rank 1", 2, "the job has 1 rank"},
      {"program configs/gpt-tiny.yaml --after waits", 2, "insert_waits"},
      {"program configs/gpt-tiny.yaml --without lower", 2, "fuse_neighbours"},
      {"program configs/gpt-tiny.yaml --without fuse_sums --after fuse_sums", 2, "exclude"},
      {"program configs/gpt-tiny.yaml --after lower --program x", 2, "choose one of init, train"},
      {"program configs/gpt-tiny.yaml --job --rank 0", 2, "--rank"},
      {"program configs/gpt-tiny.yaml --specification --job", 2, "--job"},
      {"plan " + on_eight_ranks + "--ranks 0", 2, "--ranks"},
      {"plan " + on_eight_ranks + "--ranks -8", 2, "--ranks"},
      {"plan " + on_eight_ranks + "--ranks 100000", 2, "65536"},
      {"plan " + on_eight_ranks + "--ranks 12", 5, "start a multiple of 8"},
      {"verify " + on_eight_ranks + "--set parallel.data=1 --ranks 16", 5, "parallel.data = 2"},
      {"plan configs/gpt-tiny.yaml --ranks 3", 5, "train.global_batch_size"},
      {"plan configs/gpt-tiny.yaml --set parallel.tensor.x=3", 5, "degrees that do: 1, 2, 4"},
      {"plan configs/gpt-tiny.yaml --set parallel.tensor.y=3", 5, "model.hidden_size"},
      {"verify", 2, "CONFIG"},
      {"verify --text no-such.txt", 2, "no-such.txt"},
      {"verify --of configs/gpt-tiny.yaml", 2, "--text"},
      {"verify configs/gpt-tiny.yaml --text a --of configs/gpt-tiny.yaml", 2, "--of"},
      {"verify --text a --equal", 2, "--of"},
      {"verify --text a --of configs/gpt-tiny.yaml --no-equal", 2, "--no-equal"},
      {"verify configs/gpt-tiny.yaml --equal --no-equal", 2, "--equal"},
      {"generate no-such-run", 4, "no-such-run"},
      {"train configs/gpt-tiny.yaml --set run.dir=/proc/nowhere", 6, "/proc/nowhere"},
  };
  for (const Mistake& mistake : mistakes) {
    const Outcome outcome = run_fourfold(mistake.arguments);
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

TEST_F(Cli, a_folder_in_place_of_a_configuration_is_answered_with_the_file) {
  ASSERT_EQ(train("a", "--set train.steps=2").code, 0);
  const Outcome run = run_fourfold("train " + path("a"));
  EXPECT_EQ(run.code, 2) << run.text;
  EXPECT_NE(run.text.find("its configuration is " + path("a") + "/config.resolved.yaml"),
            std::string::npos)
      << run.text;
  const Outcome other = run_fourfold("plan configs");
  EXPECT_EQ(other.code, 2) << other.text;
  EXPECT_NE(other.text.find("configs is a folder, expected a YAML file"), std::string::npos)
      << other.text;
}

TEST_F(Cli, bash_completes_the_values_of_a_key) {
  const CommandResult result = run_command(format(
      R"(bash -c 'source <({} completion bash); COMP_WORDS=(fourfold train a.yaml --set run.device = cu); )"
      R"(COMP_CWORD=6; _fourfold; echo "${{COMPREPLY[*]}}"; COMP_WORDS=(fourfold config explain optimizer.weig); )"
      R"(COMP_CWORD=3; _fourfold; echo "${{COMPREPLY[0]}}"' 2>/dev/null)",
      FOURFOLD_BINARY));
  EXPECT_EQ(result.text, "cuda\noptimizer.weight_decay\n");
}

TEST_F(Cli, a_dry_run_writes_nothing) {
  EXPECT_EQ(train("a", "--dry-run").code, 0);
  EXPECT_FALSE(file_exists(path("a")));
}

}  // namespace
}  // namespace fourfold
