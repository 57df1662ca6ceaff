// A tokenizer as a user meets it: learnt, trained with, written with; and files that are none.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "support/command.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

class Tokenizers : public FolderTest {
 protected:
  static std::string tokenizer_file(const std::string& name) {
    return "tests/unit/tokenizer/tokenizers/" + name;
  }
  void write_text() const {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += format("The quick brown fox {} jumps \u2014 na\u00EFve caf\u00E9.\n", i % 7);
    write_file_atomic(path("fox.txt"), text);
  }
  std::string learn(const std::string& options = "--vocab-size 300") const {
    return format("data train-tokenizer {} -o {} {}", path("fox.txt"), path("fox.model"), options);
  }
  std::string train(const std::string& tokenizer, const std::string& more = "") const {
    return format(
        "train configs/gpt-tiny.yaml --set data.format=text --set data.path={} --set run.dir={} "
        "--set data.tokenizer={} --set model.vocab_size=0 --set model.num_layers=1 --set "
        "model.hidden_size=16 --set model.num_attention_heads=2 --set data.seq_length=16 --set "
        "model.max_position_embeddings=16 --set train.steps=4 --set train.global_batch_size=4 "
        "--set lr_schedule.warmup_steps=1 --set sample.tokens=0 {}",
        path("fox.txt"), path("run"), tokenizer, more);
  }
  std::string with_path(const std::string& file) const {
    return format("--set data.tokenizer_path={}", file);
  }
};

TEST_F(Tokenizers, a_learnt_tokenizer_trains_a_model_that_writes_without_its_file) {
  write_text();
  const CommandResult learnt = run_fourfold(learn());
  ASSERT_EQ(learnt.code, 0) << learnt.text;
  EXPECT_NE(learnt.text.find("400 lines"), std::string::npos) << learnt.text;
  EXPECT_NE(learnt.text.find("data.tokenizer: sentencepiece"), std::string::npos) << learnt.text;
  EXPECT_EQ(learnt.text.find("sentencepiece_trainer"), std::string::npos)
      << "the library stays silent: " << learnt.text;
  const CommandResult shown = run_fourfold("data inspect " + path("fox.model"));
  EXPECT_NE(shown.text.find("\nends        token "), std::string::npos) << shown.text;
  const CommandResult trained = run_fourfold(train("sentencepiece", with_path(path("fox.model"))));
  ASSERT_EQ(trained.code, 0) << trained.text;
  fs::remove(path("fox.model"));
  const std::string write = format("generate {} --prompt 'The caf\u00E9' --tokens 40", path("run"));
  const CommandResult written = run_fourfold(write);
  ASSERT_EQ(written.code, 0) << written.text;
  EXPECT_TRUE(written.text.starts_with("The caf\u00E9")) << written.text;
  EXPECT_EQ(run_fourfold(write).text, written.text);
  EXPECT_EQ(run_fourfold(format("generate {} --prompt '' --tokens 5", path("run"))).code, 0);
}

TEST_F(Tokenizers, what_is_cut_or_passed_over_while_learning_is_told) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the cat sat on a mat\nzebra zebra \u2585 zebra\n";
  fs::create_directories(path("texts"));
  write_file_atomic(path("texts/a.txt"), text);
  write_file_atomic(path("texts/.x"), "hidden");
  const CommandResult learnt = run_fourfold(
      format("data train-tokenizer {} -o {} --vocab-size 300", path("texts"), path("t.model")));
  ASSERT_EQ(learnt.code, 0) << learnt.text;
  for (const std::string& words :
       {std::string("300 lines cut at U+2585"), std::string("1 name passed over: "),
        path("texts/.x") + ": is hidden"})
    EXPECT_NE(learnt.text.find(words), std::string::npos) << learnt.text;
}

TEST_F(Tokenizers, another_model_under_the_same_name_does_not_go_on) {
  write_text();
  ASSERT_EQ(run_fourfold(learn("--vocab-size 320")).code, 0);
  const std::string command = train("sentencepiece", with_path(path("fox.model")));
  const CommandResult first = run_fourfold(command + " --stop-at 2");
  ASSERT_EQ(first.code, 0) << first.text;
  ASSERT_EQ(run_fourfold(learn("--vocab-size 300 --overwrite")).code, 0);
  const CommandResult second = run_fourfold(command + " --set model.vocab_size=320");
  EXPECT_EQ(second.code, 3) << second.text;
  EXPECT_NE(second.text.find("the tokenizer has changed since step 2"), std::string::npos)
      << second.text;
  ASSERT_EQ(run_fourfold(learn("--vocab-size 320 --overwrite")).code, 0);
  fs::rename(path("fox.model"), path("moved.model"));
  const CommandResult third =
      run_fourfold(train("sentencepiece", with_path(path("moved.model"))) + " --set train.steps=4");
  EXPECT_EQ(third.code, 0) << third.text;
}

TEST_F(Tokenizers, gpt2_files_train_and_write_too) {
  write_text();
  const CommandResult trained = run_fourfold(train("gpt2", with_path(tokenizer_file(""))));
  ASSERT_EQ(trained.code, 0) << trained.text;
  const CommandResult written =
      run_fourfold(format("generate {} --prompt 'The fox' --tokens 20", path("run")));
  EXPECT_EQ(written.code, 0) << written.text;
  EXPECT_TRUE(written.text.starts_with("The fox")) << written.text;
}

struct BadTokenizer {
  std::string arguments;
  int code;
  std::vector<std::string> says;
};

/// Files that are no tokenizers, made of good ones.
void make_bad_files(const std::string& folder) {
  const auto file = [&](const std::string& name) { return folder + "/" + name; };
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(file(name), std::ios::binary) << text;
  };
  const std::string sources = FOURFOLD_SOURCE_DIR "/tests/unit/tokenizer/tokenizers/";
  const std::string model = read_file(sources + "lossless.model");
  const std::string vocabulary = read_file(sources + "vocab.json");
  const std::string merges = read_file(sources + "merges.txt");
  write("empty.model", "");
  write("cut.model", model.substr(0, model.size() / 2));
  write("text.model", "this is a text, not a model\n");
  write("twice.model", model + model.substr(0, 2 + static_cast<std::size_t>(model[1])));
  write("page.model", "<!DOCTYPE html><html>404</html>");
  write("latin.txt", "caf\xE9 au lait\n");
  write("blank.txt", "\n\n\n");
  for (const char* name : {"no-merges", "cut-vocab", "bad-merge", "swapped"})
    fs::create_directories(file(name));
  write("no-merges/vocab.json", vocabulary);
  write("cut-vocab/vocab.json", vocabulary.substr(0, 1000));
  write("cut-vocab/merges.txt", merges);
  write("bad-merge/vocab.json", vocabulary);
  write("bad-merge/merges.txt", merges + "q q\n");
  write("swapped/vocab.json", merges);
  write("swapped/merges.txt", vocabulary);
}

TEST_F(Tokenizers, files_that_are_none_end_with_their_code_and_one_message) {
  write_text();
  make_bad_files(path(""));
  const auto model = [&](const std::string& name) {
    return train("sentencepiece", with_path(path(name)));
  };
  const auto folder = [&](const std::string& name) { return train("gpt2", with_path(path(name))); };
  const auto learn_from = [&](const std::string& text, const std::string& options) {
    return format("data train-tokenizer {} -o {} {}", path(text), path("out.model"), options);
  };
  const std::vector<BadTokenizer> table = {
      {train("sentencepiece"), 2, {"data.tokenizer_path", "train-tokenizer"}},
      {train("gpt2"), 2, {"data.tokenizer_path", "vocab.json and merges.txt"}},
      {train("byte", with_path("x")), 2, {"data.tokenizer_path is set", "leave"}},
      {train("bpe"), 2, {"data.tokenizer", "char, byte, sentencepiece, gpt2 or hub"}},
      {model("none.model"), 3, {"none.model", "No such file"}},
      {model("no-merges"), 3, {"no-merges", "is a folder"}},
      {model("empty.model"), 3, {"empty.model", "0 unknown pieces", "train-tokenizer"}},
      {model("cut.model"), 3, {"cut.model", "longer than what is left"}},
      {model("text.model"), 3, {"text.model", "is no sentencepiece model"}},
      {model("page.model"), 3, {"page.model", "is no sentencepiece model"}},
      {model("twice.model"), 3, {"twice.model", "is there twice"}},
      {model("fox.txt"), 3, {"fox.txt", "is no sentencepiece model"}},
      {folder("none"), 3, {"none/vocab.json", "No such file"}},
      {folder("no-merges"), 3, {"no-merges/merges.txt", "No such file"}},
      {folder("cut-vocab"), 3, {"cut-vocab/vocab.json:1:"}},
      {folder("bad-merge"), 3, {"bad-merge/merges.txt:", "\"qq\"", "no token"}},
      {folder("swapped"), 3, {"swapped/vocab.json:1:1"}},
      {learn_from("none.txt", "--vocab-size 300"), 3, {"none.txt"}},
      {learn_from("blank.txt", "--vocab-size 300"), 3, {"no lines"}},
      {learn_from("latin.txt", "--vocab-size 300"), 3, {"latin.txt", "0xe9", "UTF-8"}},
      {learn_from("fox.txt", "--vocab-size 10"), 2, {"--vocab-size"}},
      {learn_from("fox.txt", "--vocab-size 260"), 2, {"260", "raise --vocab-size"}},
      {learn_from("fox.txt", "--vocab-size 300 --coverage 2"), 2, {"--coverage"}},
      {learn_from("fox.txt", ""), 2, {"--vocab-size is required"}},
      {format("data train-tokenizer {} -o {} --vocab-size 300", path("fox.txt"), path("fox.txt")),
       11,
       {"fox.txt is there already", "--overwrite"}},
      {format("data train-tokenizer {} -o {} --vocab-size 300", path("fox.txt"),
              path("no/x.model")),
       6,
       {"no/x.model", "no folder"}},
  };
  for (const auto& [arguments, code, says] : table) {
    const CommandResult outcome = run_fourfold(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.text;
    for (const std::string& word : says)
      EXPECT_NE(outcome.text.find(word), std::string::npos)
          << "\"" << word << "\" is missing: " << outcome.text;
    EXPECT_FALSE(file_exists(path("out.model"))) << arguments;
    EXPECT_FALSE(file_exists(path("run"))) << arguments;
  }
}

/// Against the peers in Python, where they are: equal ids for a large text.
class TokenizerPeers : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    const char* python = std::getenv("FOURFOLD_PEERS");
    const char* text = std::getenv("FOURFOLD_PEERS_TEXT");
    if (python == nullptr || text == nullptr)
      GTEST_SKIP() << "set FOURFOLD_PEERS to a Python with sentencepiece and transformers, and "
                      "FOURFOLD_PEERS_TEXT to a text of some megabytes";
    python_ = python;
    text_ = text;
  }
  std::string python_, text_;
};

TEST_F(TokenizerPeers, sentencepiece_and_transformers_give_a_large_text_the_same_ids) {
  const CommandResult learnt = run_fourfold(
      format("data train-tokenizer {} -o {} --vocab-size 8000", text_, path("t.model")));
  ASSERT_EQ(learnt.code, 0) << learnt.text;
  for (const auto& [kind, file] :
       {std::pair{"sentencepiece", path("t.model")},
        std::pair{"gpt2", std::string("tests/unit/tokenizer/tokenizers")}}) {
    const CommandResult made =
        run_fourfold(format("data tokenize {} -o {} --tokenizer {} --tokenizer-path {}", text_,
                            path(kind), kind, file));
    ASSERT_EQ(made.code, 0) << made.text;
    const CommandResult compared =
        run_command(format("{} tests/system/compare_tokens.py {} {} {} {} 2>&1", python_, kind,
                           file, text_, path(std::string(kind) + ".bin")));
    EXPECT_EQ(compared.code, 0) << compared.text;
  }
}

}  // namespace
}  // namespace fourfold
