// Samples that hold several documents: attention stops at their borders. Through the model, and
// through the binary.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/compare.h"
#include "support/small_run.h"
#include "tokenizer/byte_letters.h"

namespace fourfold::documents_test {
namespace {

using test::FixedFeeder;
using test::RunSetup;
using test::SmallRun;

RunSetup model_of(std::int64_t samples, std::int64_t length) {
  RunSetup setup;
  setup.gpt.max_position_embeddings = 12;
  setup.gpt.bias = false;  // the gradient of a key's bias is nothing but rounding
  setup.plan = {.global_batch_size = samples, .micro_batch_size = samples, .seq_length = length};
  setup.plan.compute = DType::f64;
  return setup;
}

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<double>> weights;
};

Outcome train(const RunSetup& setup, FixedFeeder feeder) {
  SmallRun run(setup);
  run.init(true);
  Outcome outcome;
  for (std::int64_t step = 0; step < 3; ++step) {
    const op::ResultBlock result = run.step(feeder, step);
    EXPECT_EQ(result.applied, 1);
    outcome.losses.push_back(result.loss_sum / static_cast<double>(result.valid_count));
    outcome.norms.push_back(result.grad_norm);
  }
  for (const program::Buffer* buffer : run.parameters())
    outcome.weights[buffer->name] = run.doubles(*buffer);
  return outcome;
}

/// Largest relative difference of losses, norms and weights.
double difference(const Outcome& a, const Outcome& b) {
  double worst = 0;
  for (std::size_t step = 0; step < a.losses.size(); ++step) {
    worst = std::max(worst, std::abs(a.losses[step] / b.losses[step] - 1));
    worst = std::max(worst, std::abs(a.norms[step] / b.norms[step] - 1));
  }
  for (const auto& [name, weight] : a.weights)
    worst = std::max(worst, test::relative_error(weight, b.weights.at(name), 0));
  return worst;
}

/// Documents of 5, 1 and 6 tokens one after another; the last of each has no label.
struct Together {
  std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2},
                            labels = {2, 3, 4, 5, -1, -1, 8, 9, 10, 1, 2, -1},
                            starts = {0, 0, 0, 0, 0, 5, 6, 6, 6, 6, 6, 6};
  FixedFeeder feeder() const { return {tokens, labels, starts}; }
};
/// Each of them in a sample of its own, which it begins.
FixedFeeder alone() {
  return {std::vector<std::int32_t>{1, 2, 3, 4, 5, 0, 6, 0, 0, 0, 0, 0, 7, 8, 9, 10, 1, 2},
          {2, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, 8, 9, 10, 1, 2, -1}};
}

TEST(Documents, of_one_sample_train_as_if_each_stood_alone) {
  RunSetup setup = model_of(1, 12);
  setup.masks_documents = setup.restarts_positions = true;
  const Outcome expected = train(model_of(3, 6), alone());
  EXPECT_LE(difference(train(setup, Together().feeder()), expected), 1e-11);
  setup.masks_documents = false;
  EXPECT_GE(difference(train(setup, Together().feeder()), expected), 1e-4);
  setup.masks_documents = true;
  setup.restarts_positions = false;
  EXPECT_GE(difference(train(setup, Together().feeder()), expected), 1e-4);
}

TEST(Documents, of_the_length_of_the_sample_change_no_bit) {
  Together one;
  one.starts.assign(12, 0);
  RunSetup plain = model_of(1, 12), documents = plain;
  documents.masks_documents = documents.restarts_positions = true;
  const Outcome a = train(plain, one.feeder()), b = train(documents, one.feeder());
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.weights, b.weights);
}

class DocumentsInData : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string lines;
    for (int i = 0; i < 400; ++i)
      lines += format("{{\"text\": \"{}The fox {} jumps.\"}}\n", std::string(i % 11, '-'), i % 7);
    write_file_atomic(path("a.jsonl"), lines);
  }
  std::string options(const std::string& more) const {
    return format(
        "configs/gpt-shakespeare-char.yaml --set data.path={} --set train.steps=8 --set "
        "lr_schedule.warmup_steps=1 --set model.hidden_size=32 --set model.num_layers=2 --set "
        "data.seq_length=48 --set sample.tokens=0 --set eval.batches=2 --set "
        "train.global_batch_size=8 --set train.micro_batch_size=2 --set precision.compute=fp64 "
        "--set data.mask_documents=true --set data.restart_positions=true {}",
        path("a.jsonl"), more);
  }
  /// Loss of the last step and of the evaluation at the end, as printed.
  std::string losses(const std::string& name, const std::string& more) const {
    const CommandResult result = run_fourfold(
        format("train {} --set run.dir={} --set log.interval=8", options(more), path(name)));
    EXPECT_EQ(result.code, 0) << result.text;
    std::string found;
    for (const char* what : {"step 8/8 | loss ", "eval 8/8 | val loss "})
      if (const auto at = result.text.find(what); at != std::string::npos)
        found += result.text.substr(at, std::string(what).size() + 7) + "\n";
    return found;
  }
};

TEST_F(DocumentsInData, train_alike_on_every_grid_and_otherwise_than_without_the_mask) {
  const std::string serial = losses("one", "");
  EXPECT_EQ(std::count(serial.begin(), serial.end(), '\n'), 2) << serial;
  EXPECT_EQ(losses("grid", "--set parallel.tensor.x=2 --set parallel.tensor.y=2"), serial);
  EXPECT_EQ(losses("data",
                   "--set parallel.data=2 --set parallel.tensor.z=2 --set "
                   "memory.activation_checkpointing=full"),
            serial);
  EXPECT_NE(losses("joined", "--set data.mask_documents=false"), serial);
}

TEST_F(DocumentsInData, stand_in_the_program_which_reads_back_and_has_no_faults) {
  for (const char* grid : {"",
                           "--set parallel.tensor.x=2 --set parallel.tensor.y=2 --set "
                           "parallel.tensor.z=2"}) {
    const CommandResult program = run_fourfold(format("program {} --program all", options(grid)));
    ASSERT_EQ(program.code, 0) << program.text;
    EXPECT_NE(program.text.find("input document_starts"), std::string::npos);
    EXPECT_NE(program.text.find("documents true"), std::string::npos);
    write_file_atomic(path("program.txt"), program.text);
    const CommandResult text = run_fourfold(format("verify --text {}", path("program.txt")));
    EXPECT_EQ(text.code, 0) << text.text;
    const CommandResult verify = run_fourfold(format("verify {}", options(grid)));
    EXPECT_EQ(verify.code, 0) << verify.text;
    EXPECT_EQ(run_fourfold(format("plan {}", options(grid))).code, 0);
  }
  const CommandResult without = run_fourfold(format(
      "program {}", options("--set data.mask_documents=false --set data.restart_positions=false")));
  EXPECT_EQ(without.code, 0);
  EXPECT_EQ(without.text.find("document"), std::string::npos);
}

TEST_F(DocumentsInData, are_asked_for_where_there_are_none_in_one_line) {
  write_file_atomic(path("a.txt"), std::string(5000, 'a'));
  struct Case {
    std::string more;
    int code;
    std::string expected;
  };
  for (const Case& c : std::vector<Case>{
           {"--set data.format=synthetic --set model.vocab_size=9", 2,
            "data.format = synthetic has no documents"},
           {format("--set data.path={}", path("a.txt")), 3, "a.txt: is one document"},
           {format("--set data.path={} --set data.mask_documents=false", path("a.txt")), 3,
            "data.restart_positions"}}) {
    const CommandResult result =
        run_fourfold(format("train {} --set run.dir={}", options(c.more), path("run")));
    EXPECT_EQ(result.code, c.code) << result.text;
    EXPECT_NE(result.text.find(c.expected), std::string::npos) << result.text;
    EXPECT_FALSE(file_exists(path("run")));
  }
}

/// A tokenizer of GPT-2's kind without merges.
void write_bytes_and_end(const std::string& folder) {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.set(tokenizer::to_byte_letters(std::string(1, static_cast<char>(byte))), byte);
  vocabulary.set("<|endoftext|>", 256);
  std::filesystem::create_directories(folder);
  write_file_atomic(folder + "/vocab.json", vocabulary.dump());
  write_file_atomic(folder + "/merges.txt", "#version: 0.2\n");
}

TEST_F(DocumentsInData, end_what_generate_writes_unless_it_is_to_go_on) {
  write_bytes_and_end(path("tokens"));
  const CommandResult set = run_fourfold(
      format("data tokenize {} -o {} --tokenizer gpt2 --tokenizer-path {} --append-eod",
             path("a.jsonl"), path("set"), path("tokens")));
  ASSERT_EQ(set.code, 0) << set.text;
  const CommandResult train = run_fourfold(
      format("train {} --set run.dir={} --set checkpoint.interval_steps=30",
             options(format("--set data.format=megatron --set data.tokenizer=gpt2 --set "
                            "data.tokenizer_path={} --set data.path={} --set train.steps=60 --set "
                            "optimizer.lr=1e-2 --set precision.compute=fp32",
                            path("tokens"), path("set"))),
             path("run")));
  ASSERT_EQ(train.code, 0) << train.text;
  const auto write = [&](const std::string& how) {
    const CommandResult result = run_command(
        format("{} generate {} --prompt 'The fox 3' --temperature 0 --tokens 60 --stats {} 2>&1",
               FOURFOLD_BINARY, path("run"), how));
    EXPECT_EQ(result.code, 0) << result.text;
    return result.text;
  };
  const std::string ended = write(""), on = write("--ignore-eos");
  EXPECT_EQ(ended.find("<|endoftext|>"), std::string::npos) << ended;
  EXPECT_NE(ended.find(", to the end of the document"), std::string::npos) << ended;
  EXPECT_NE(on.find("<|endoftext|>"), std::string::npos) << on;
  EXPECT_NE(on.find("sample 1: 60 tokens in"), std::string::npos) << on;
  const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  EXPECT_EQ(on.find(first_line(ended)), 0U) << on;
  EXPECT_NE(first_line(write("--ignore-eos --step 30")), first_line(on));
  const CommandResult none = run_fourfold(format("generate {} --step 7", path("run")));
  EXPECT_EQ(none.code, 4);
  EXPECT_NE(none.text.find("no checkpoint of step 7; choose one of "), std::string::npos)
      << none.text;
}

}  // namespace
}  // namespace fourfold::documents_test
