// Models that go to other tools and come back, through the binary; against transformers and
// TensorBoard themselves where FOURFOLD_PEERS names a Python that has them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "data/byte_letters.h"
#include "data/png.h"
#include "support/command.h"

namespace fourfold {
namespace {

class Interop : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string text;
    for (int i = 0; i < 200; ++i) text += format("The quick brown fox {} jumps.\n", i % 7);
    write_file_atomic(path("fox.txt"), text);
    write_file_atomic(path("short.txt"), text.substr(0, 40));
  }
  /// The words of a GPT-2 with 16 positions on two ranks.
  CommandResult train(const std::string& name, const std::string& more = "",
                      const std::string& config = "configs/gpt-shakespeare-char.yaml") const {
    return run_fourfold(format(
        "train {} --set data.path={} --set run.dir={} --set train.steps=12 --set "
        "lr_schedule.warmup_steps=2 --set model.hidden_size=32 --set model.num_layers=2 --set "
        "data.seq_length=16 --set model.max_position_embeddings=16 --set model.bias=true --set "
        "sample.tokens=0 --set eval.batches=1 --set train.global_batch_size=4 --set "
        "checkpoint.interval_steps=6 {}",
        config, path("fox.txt"), path(name), more));
  }
  std::string must(const std::string& arguments) const {
    const CommandResult result = run_fourfold(arguments);
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.text;
    return result.text;
  }
  /// What a model thinks of the short text, in full precision.
  std::string judged(const std::string& run, const std::string& more = "") const {
    return must(format("eval {} --text {} --json {}", path(run), path("short.txt"), more));
  }
};

TEST_F(Interop, a_model_that_was_exported_and_imported_computes_the_same_bits) {
  ASSERT_EQ(train("run", "--set parallel.tensor.x=2").code, 0);
  for (const char* how : {"", "--untie", "--max-shard-size 20KB", "--step 12"}) {
    std::filesystem::remove_all(path("hf"));
    std::filesystem::remove_all(path("back"));
    must(format("export {} -o {} {}", path("run"), path("hf"), how));
    must(format("import {} -o {}", path("hf"), path("back")));
    EXPECT_EQ(judged("back"), judged("run")) << how;
  }
  const std::string sample = "--prompt The --tokens 30 --temperature 0.9 --seed 3";
  EXPECT_EQ(must(format("generate {} {}", path("back"), sample)),
            must(format("generate {} {}", path("run"), sample)));
  EXPECT_NE(judged("run", "--step 6"), judged("run"));
}

TEST_F(Interop, a_model_without_biases_goes_and_comes_back_with_biases_of_zero) {
  ASSERT_EQ(train("run", "--set model.bias=false").code, 0);
  const std::string told = must(format("export {} -o {}", path("run"), path("hf")));
  EXPECT_NE(told.find("written as zeros"), std::string::npos) << told;
  must(format("import {} -o {}", path("hf"), path("back")));
  EXPECT_EQ(judged("back"), judged("run"));
}

TEST_F(Interop, our_own_format_is_a_folder_that_generate_reads) {
  ASSERT_EQ(train("run").code, 0);
  must(format("export {} -o {} --format safetensors --step 12", path("run"), path("own")));
  EXPECT_EQ(judged("own"), judged("run"));
  EXPECT_EQ(must(format("generate {} --prompt The --tokens 9", path("own"))),
            must(format("generate {} --prompt The --tokens 9", path("run"))));
}

TEST_F(Interop, training_begins_with_the_weights_that_are_named_on_any_grid) {
  ASSERT_EQ(train("run").code, 0);
  for (const char* grid : {"", "--set parallel.tensor.y=2", "--set parallel.data=2"}) {
    std::filesystem::remove_all(path("more"));
    ASSERT_EQ(train("more", format("--set run.init_from={} --set train.steps=1 --set "
                                   "lr_schedule.warmup_steps=0 --set optimizer.lr=1e-30 --set "
                                   "lr_schedule.min_lr=0 --set optimizer.weight_decay=0 {}",
                                   path("run"), grid))
                  .code,
              0);
    EXPECT_EQ(judged("more"), judged("run")) << grid;
  }
  // Going on needs the named model no more.
  std::filesystem::remove_all(path("run"));
  const CommandResult on =
      train("more", format("--set run.init_from={} --set train.steps=2 --set "
                           "lr_schedule.warmup_steps=0 --set optimizer.weight_decay=0 --set "
                           "parallel.data=2",
                           path("run")));
  EXPECT_EQ(on.code, 0) << on.text;
  EXPECT_NE(on.text.find("going on from step 1"), std::string::npos) << on.text;
}

/// A tokenizer of GPT-2's kind, with two merges.
void write_byte_pairs(const std::string& folder) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(data::to_byte_letters(std::string(1, static_cast<char>(byte))));
  tokens.insert(tokens.end(), {"Th", "The", "<|endoftext|>"});
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < tokens.size(); ++id) vocabulary.set(tokens[id], id);
  std::filesystem::create_directories(folder);
  write_file_atomic(folder + "/vocab.json", vocabulary.dump());
  write_file_atomic(folder + "/merges.txt", "#version: 0.2\nT h\nTh e\n");
}

TEST_F(Interop, a_tokenizer_goes_with_its_model_and_trains_it_further) {
  write_byte_pairs(path("bpe"));
  const std::string options = "--set data.tokenizer=gpt2 --set data.tokenizer_path=";
  ASSERT_EQ(train("run", options + path("bpe")).code, 0);
  must(format("export {} -o {}", path("run"), path("hf")));
  EXPECT_EQ(read_file(path("hf/merges.txt")), read_file(path("bpe/merges.txt")));
  const std::string vocabulary = read_file(path("hf/vocab.json"));
  EXPECT_EQ(parse_json(vocabulary, "a"), parse_json(read_file(path("bpe/vocab.json")), "b"));
  EXPECT_NE(read_file(path("hf/config.json")).find("\"eos_token_id\":258"), std::string::npos);
  // As a stranger's folder is: without our own file.
  std::filesystem::remove(path("hf/fourfold_tokenizer.json"));
  must(format("import {} -o {}", path("hf"), path("back")));
  EXPECT_EQ(judged("back"), judged("run"));
  const CommandResult more =
      train("more", format("--set run.init_from={} --set optimizer.lr=1e-4", path("back")),
            path("back/config.resolved.yaml"));
  EXPECT_EQ(more.code, 0) << more.text;
  // Other tokens, of as many.
  write_file_atomic(path("bpe/merges.txt"), "#version: 0.2\nT h\n");
  const CommandResult other =
      train("other", format("--set run.init_from={} {}{}", path("back"), options, path("bpe")));
  EXPECT_EQ(other.code, 3) << other.text;
  EXPECT_NE(other.text.find("was trained with another tokenizer"), std::string::npos);
  EXPECT_FALSE(file_exists(path("other")));
}

TEST_F(Interop, a_tokenizer_comes_and_goes_as_tokenizer_json_alone) {
  write_byte_pairs(path("bpe"));
  const std::string files = "tests/unit/data/tokenizers/";
  for (const char* kind : {"qwen", "llama2"}) {
    std::filesystem::create_directories(path(kind));
    write_file_atomic(path(format("{}/tokenizer.json", kind)),
                      read_file(format("{}/{}hub/{}.json", FOURFOLD_SOURCE_DIR, files, kind)));
  }
  struct Case {
    std::string name, options, file;
  };
  for (const Case& c : std::vector<Case>{
           {"gpt2", "gpt2 --set data.tokenizer_path=" + path("bpe"), "merges.txt"},
           {"bpe", format("sentencepiece --set data.tokenizer_path={}lossless.model", files),
            "tokenizer.model"},
           {"unigram", format("sentencepiece --set data.tokenizer_path={}unigram.model", files),
            "tokenizer.model"},
           {"qwen", "hub --set data.tokenizer_path=" + path("qwen"), "fourfold_tokenizer.json"},
           {"llama2", format("hub --set data.tokenizer_path={}/tokenizer.json", path("llama2")),
            "fourfold_tokenizer.json"},
           {"char", "char", ""},
           {"byte", "byte", ""}}) {
    SCOPED_TRACE(c.name);
    const std::string run = c.name + "-run", hf = c.name + "-hf", back = c.name + "-back";
    ASSERT_EQ(
        train(run, "--set train.steps=2 --set model.vocab_size=0 --set data.tokenizer=" + c.options)
            .code,
        0);
    must(format("export {} -o {}", path(run), path(hf)));
    EXPECT_TRUE(file_exists(path(hf + "/tokenizer_config.json")));
    for (const char* other :
         {"fourfold_tokenizer.json", "vocab.json", "merges.txt", "tokenizer.model"})
      std::filesystem::remove(path(hf + "/" + other));
    const std::string told = must(format("import {} -o {}", path(hf), path(back)));
    EXPECT_EQ(told.find("without a tokenizer"), std::string::npos) << told;
    EXPECT_EQ(judged(back), judged(run));
    if (!c.file.empty()) {
      EXPECT_TRUE(file_exists(path(back + "/" + c.file)));
    }
  }
}

TEST_F(Interop, a_tokenizer_that_cannot_come_or_go_is_said_with_its_reason) {
  ASSERT_EQ(
      train("run",
            "--set train.steps=2 --set model.vocab_size=0 --set data.tokenizer=sentencepiece --set "
            "data.tokenizer_path=tests/unit/data/tokenizers/word.model")
          .code,
      0);
  const std::string gone = must(format("export {} -o {}", path("run"), path("hf")));
  EXPECT_NE(
      gone.find(
          "note: tokenizer.json is not written, because Hugging Face has no tokenizer of this "
          "kind: it is a sentencepiece model of words"),
      std::string::npos)
      << gone;
  for (const char* own : {"fourfold_tokenizer.json", "tokenizer.model"})
    std::filesystem::remove(path(std::string("hf/") + own));
  write_file_atomic(path("hf/tokenizer.json"), R"({"model":{"type":"WordPiece"}})");
  const std::string come = must(format("import {} -o {}", path("hf"), path("back")));
  EXPECT_NE(come.find("without a tokenizer"), std::string::npos) << come;
  EXPECT_NE(
      come.find("note: the tokenizer is not imported, because there is none of its kind here: "
                "tokenizer.json: its model is WordPiece"),
      std::string::npos)
      << come;
  write_file_atomic(path("hf/tokenizer.json"), "{\"model\":");
  const CommandResult broken = run_fourfold(format("import {} -o {}", path("hf"), path("broken")));
  EXPECT_EQ(broken.code, 3) << broken.text;
  EXPECT_FALSE(file_exists(path("broken")));
}

TEST_F(Interop, the_commands_that_import_prints_do_what_they_say) {
  write_byte_pairs(path("bpe"));
  ASSERT_EQ(train("run", "--set data.tokenizer=gpt2 --set data.tokenizer_path=" + path("bpe")).code,
            0);
  must(format("export {} -o {}", path("run"), path("hf")));
  const std::string told = must(format("import {} -o {}", path("hf"), path("back")));
  const auto command = [&](const std::string& label) {
    const auto begin = told.find("fourfold ", told.find("\n" + label)) + 9;
    return told.substr(begin, told.find('\n', begin) - begin);
  };
  must(command("write"));
  std::string words = command("train");
  for (const auto& [word, value] :
       {std::pair{"NAME", std::string("tuned")}, std::pair{"runs/NAME", path("tuned")},
        std::pair{"FILE", path("fox.txt")}}) {
    const std::string ending = format("={} ", word);
    const auto at = (words += " ").find(ending);
    ASSERT_NE(at, std::string::npos) << word << "\n" << words;
    words.replace(at, ending.size(), format("={} ", value));
  }
  const std::string trained = must(words + "--set train.steps=3 --set sample.tokens=0");
  EXPECT_NE(trained.find("step 3/3"), std::string::npos) << trained;
}

TEST_F(Interop, a_model_that_is_exported_for_us_trains_further_at_another_rate) {
  ASSERT_EQ(train("run").code, 0);
  for (const char* how : {"", "--step 12"}) {
    const std::string name = format("own{}", how[0] == '-' ? "-step" : "");
    must(format("export {} -o {} --format safetensors {}", path("run"), path(name), how));
    const std::string trained =
        must(format("train {} --set run.dir={} --set optimizer.lr=1e-5 --set train.steps=3",
                    path(name + "/config.resolved.yaml"), path(name + "-more")));
    EXPECT_NE(trained.find("step 3/3"), std::string::npos) << trained;
  }
}

TEST_F(Interop, event_files_are_written_beside_a_run_and_one_more_when_it_goes_on) {
  const std::string options = "--set log.tensorboard=true";
  ASSERT_EQ(train("run", options + " --stop-at 6").code, 0);
  ASSERT_EQ(train("run", options).code, 0);
  int files = 0;
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(path("run/tensorboard"))) {
    EXPECT_NE(entry.path().filename().string().find("events.out.tfevents."), std::string::npos);
    ++files;
    all += read_file(entry.path().string());
  }
  EXPECT_EQ(files, 2);
  for (const char* tag : {"train/loss", "train/grad_norm", "train/lr", "perf/step_ms",
                          "perf/tokens_per_s", "mem/peak_gib", "val/loss", "run/config"})
    EXPECT_NE(all.find(tag), std::string::npos) << tag;
  EXPECT_FALSE(file_exists(path("quiet/tensorboard")));
}

TEST_F(Interop, row_58_a_folder_that_takes_no_event_files_never_stops_a_run) {
  ASSERT_EQ(train("run", "--set train.steps=2 --set lr_schedule.warmup_steps=0").code, 0);
  std::filesystem::remove_all(path("run/checkpoints"));
  write_file_atomic(path("run/tensorboard"), "a file where a folder should be");
  const CommandResult result = train("run", "--overwrite --set log.tensorboard=true");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("the run goes on, but TensorBoard will miss"), std::string::npos)
      << result.text;
  EXPECT_NE(result.text.find("records for TensorBoard could not be written"), std::string::npos);
}

TEST_F(Interop, bad_input_is_answered_in_one_line_and_leaves_nothing) {
  ASSERT_EQ(train("run").code, 0);
  must(format("export {} -o {}", path("run"), path("hf")));
  const auto copy = [&](const char* name) {
    std::filesystem::copy(path("hf"), path(name));
    return path(name);
  };
  write_file_atomic(copy("broken") + "/config.json", "{\"model_type\":");
  write_file_atomic(copy("llama") + "/config.json", R"({"model_type":"llama"})");
  write_file_atomic(copy("shape") + "/config.json",
                    R"({"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":4,"vocab_size":20,)"
                    R"("n_positions":16})");
  write_file_atomic(copy("torn") + "/model.safetensors",
                    read_file(path("hf/model.safetensors")).substr(0, 5000));
  std::filesystem::remove(copy("none") + "/model.safetensors");
  write_file_atomic(copy("tokens") + "/fourfold_tokenizer.json", "{\"tokenizer\":\"word\"}");
  write_file_atomic(copy("bytes") + "/fourfold_tokenizer.json", "{\"tokenizer\":\"byte\"}");
  write_file_atomic(path("one.txt"), "T");
  write_file_atomic(path("other.txt"), "The \x01 fox");
  std::filesystem::create_directories(path("empty"));
  const std::string run = path("run"), out = path("out");
  struct Case {
    std::string arguments;
    int code;
    std::string expected;
  };
  for (const Case& c : std::vector<Case>{
           {format("export {} -o {}", path("nothing"), out), 4, "there is no such folder"},
           {format("export {} -o {}", path("empty"), out), 4, "holds no trained model"},
           {format("export {} -o {}", run, path("hf")), 11, "holds files already"},
           {format("export {} -o {}", run, path("fox.txt")), 11, "is not a folder"},
           {format("export {} -o {} --format onnx", run, out), 2, "--format"},
           {format("export {} -o {} --dtype int8", run, out), 2, "--dtype"},
           {format("export {} -o {} --step 7", run, out), 4, "has no checkpoint of step 7"},
           {format("export {} -o {} --step -1", run, out), 2, "--step"},
           {format("export {} -o {} --max-shard-size 5XB", run, out), 2, "5XB: expected a size"},
           {format("export {} -o {} --max-shard-size 0", run, out), 2, "0: expected a size"},
           {format("export {} -o {} --max-shard-size 99999999999GB", run, out), 2, "a size"},
           {format("export {} -o {} --format safetensors --untie", run, out), 2, "--untie"},
           {format("import {} -o {}", path("nothing"), out), 4, "there is no such folder"},
           {format("import {} -o {}", path("empty"), out), 4, "config.json"},
           {format("import {} -o {}", path("hf"), run), 11, "holds files already"},
           {format("import {} -o {}", run, out), 4, "is a run of Fourfold"},
           {format("import {} -o {}", path("broken"), out), 4, "config.json:1:"},
           {format("import {} -o {}", path("llama"), out), 4, "model_type"},
           {format("import {} -o {}", path("shape"), out), 4, "config.json asks for"},
           {format("import {} -o {}", path("torn"), out), 4, "cut short"},
           {format("import {} -o {}", path("none"), out), 4, "holds neither"},
           {format("import {} -o {}", path("tokens"), out), 4, "fourfold_tokenizer.json"},
           {format("import {} -o {}", path("bytes"), out), 4, "256 tokens"},
           {format("eval {} --text {}", run, path("nothing")), 3, "nothing"},
           {format("eval {} --text {}", run, path("one.txt")), 3, "at least 2"},
           {format("eval {} --text {}", run, path("other.txt")), 3, "other.txt"},
           {format("eval {} --text {} --window 17", run, path("fox.txt")), 2, "16 positions"},
           {format("eval {} --text {} --window 0", run, path("fox.txt")), 2, "--window"},
           {format("eval {} --text {}", path("hf"), path("fox.txt")), 4, "no trained model"},
           {format("report {} -o {}", path("nothing"), out), 3, "there is no such folder"},
           {format("report {} -o {}", path("empty"), out), 3, "metrics.jsonl"},
           {format("report {} -o {}", path("fox.txt"), out), 3, "is not a folder"},
           {format("report {} -o {}/no/such.html", run, out), 6, "such.html"}}) {
    const CommandResult result = run_fourfold(c.arguments);
    EXPECT_EQ(result.code, c.code) << c.arguments << "\n" << result.text;
    EXPECT_NE(result.text.find(c.expected), std::string::npos) << c.arguments << "\n"
                                                               << result.text;
    EXPECT_EQ(result.text.find("internal"), std::string::npos) << result.text;
    EXPECT_FALSE(file_exists(out)) << c.arguments;
  }
}

TEST_F(Interop, weights_that_do_not_fit_are_refused_before_a_run_directory_is_made) {
  ASSERT_EQ(train("run").code, 0);
  struct Case {
    std::string options;
    int code;
    std::string expected;
  };
  write_file_atomic(path("other.txt"), read_file(path("fox.txt")) + "~");
  for (const Case& c : std::vector<Case>{
           {format("--set run.init_from={}", path("none")), 4, "there is no such folder"},
           {format("--set run.init_from={} --set model.num_layers=3", path("run")), 4,
            "blocks.2.attn.out.bias: missing"},
           {format("--set run.init_from={} --set data.tokenizer=byte", path("run")), 4, "wte"},
           {format("--set run.init_from={} --set data.tokenizer=byte --set model.vocab_size=256",
                   path("run")),
            4, "wte"}}) {
    const CommandResult result = train("more", c.options);
    EXPECT_EQ(result.code, c.code) << c.options << "\n" << result.text;
    EXPECT_NE(result.text.find(c.expected), std::string::npos) << result.text;
    EXPECT_FALSE(file_exists(path("more"))) << c.options;
  }
}

/// Python with torch, transformers, safetensors and tensorboard.
class Peers : public Interop {
 protected:
  void SetUp() override {
    if (std::getenv("FOURFOLD_PEERS") == nullptr)
      GTEST_SKIP() << "FOURFOLD_PEERS names no Python with transformers and tensorboard";
    Interop::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) Interop::TearDown();
  }
  std::string python(const std::string& script, const std::string& arguments) const {
    write_file_atomic(path("script.py"), script);
    const CommandResult result =
        run_command(format("{} {} {} 2> {}", std::getenv("FOURFOLD_PEERS"), path("script.py"),
                           arguments, path("errors.txt")));
    EXPECT_EQ(result.code, 0) << result.text << read_file(path("errors.txt"));
    return result.text;
  }
  static constexpr double most_difference = 2e-5;  // of logits
  /// The largest difference of any logit, window by window.
  double largest_difference(const std::string& hf, const std::string& logits, int window) const {
    return std::stod(python(R"(
import sys, torch, transformers
from safetensors.torch import load_file
model = transformers.GPT2LMHeadModel.from_pretrained(sys.argv[1]).eval().float()
ours, window = load_file(sys.argv[2]), int(sys.argv[3])
ids, logits, worst = ours["ids"].long(), ours["logits"], 0
with torch.no_grad():
    for begin in range(0, len(logits), window):
        end = min(len(logits), begin + window)
        theirs = model(ids[begin:end][None]).logits[0]
        worst = max(worst, (theirs - logits[begin:end]).abs().max().item())
print(worst)
)",
                            format("{} {} {}", hf, logits, window)));
  }
};

TEST_F(Peers, transformers_computes_the_logits_of_an_exported_model) {
  ASSERT_EQ(train("run", "--set model.num_layers=4 --set parallel.tensor.x=2").code, 0);
  must(format("eval {} --text {} --logits {}", path("run"), path("short.txt"), path("l")));
  ASSERT_EQ(train("nobias", "--set model.bias=false").code, 0);
  must(format("eval {} --text {} --logits {}", path("nobias"), path("short.txt"), path("n")));
  must(format("export {} -o {}", path("nobias"), path("zeros")));
  EXPECT_LE(largest_difference(path("zeros"), path("n"), 16), most_difference);
  for (const char* how : {"", "--untie", "--max-shard-size 20KB"}) {
    std::filesystem::remove_all(path("hf"));
    must(format("export {} -o {} {}", path("run"), path("hf"), how));
    const double difference = largest_difference(path("hf"), path("l"), 16);
    EXPECT_LE(difference, most_difference) << how;
    std::printf("export %s: logits differ by at most %g\n", how, difference);
  }
}

/// A byte may be rounded otherwise.
TEST_F(Peers, pytorch_makes_the_pictures_of_an_exported_unet) {
  write_file_atomic(path("unet.yaml"), R"(
model: {kind: unet}
unet: {channels: 8, channel_mult: [1, 2], num_res_blocks: 1, attention_resolutions: [4], num_attention_heads: 2,
  norm_groups: 4, picture: [8, 8, 3], num_classes: 4, class_conditional: true, learn_sigma: true}
diffusion: {steps: 40, average_decay: 0.9}
data: {format: synthetic, split: 0.999}
train: {steps: 20, global_batch_size: 16}
lr_schedule: {warmup_steps: 2}
eval: {interval_steps: 0, batches: 1}
)");
  must(format("train {} --set run.dir={}", path("unet.yaml"), path("run")));
  must(format("export {} -o {} --format safetensors", path("run"), path("own")));
  for (const char* how : {"--steps 10 --eta 0.5", "--steps 40 --sampler ddpm --seed 3"}) {
    std::filesystem::remove_all(path("each"));
    must(format("generate {} --each {} --samples 3 {}", path("run"), path("each"), how));
    const CommandResult result = run_command(
        format("{} tests/golden/sample_unet.py {} {} --count 3 {} 2> {}",
               std::getenv("FOURFOLD_PEERS"), path("own"), path("bytes"), how, path("errors.txt")));
    ASSERT_EQ(result.code, 0) << read_file(path("errors.txt"));
    const std::string expected = read_file(path("bytes"));
    constexpr data::PictureShape shape = {8, 8, 3};
    std::size_t at = 0, other = 0;
    for (int number = 1; number <= 3; ++number) {
      const std::string file = read_file(path(format("each/{}.png", number)));
      std::vector<std::uint8_t> picture(static_cast<std::size_t>(shape.size_bytes()));
      ASSERT_FALSE(data::decode_png(std::as_bytes(std::span(file)), shape, picture).has_value());
      for (const std::uint8_t byte : picture) {
        const int difference = byte - static_cast<std::uint8_t>(expected.at(at++));
        EXPECT_LE(std::abs(difference), 1);
        other += difference != 0 ? 1U : 0U;
      }
    }
    EXPECT_EQ(at, expected.size());
    EXPECT_LE(other, at / 50) << how;
  }
}

TEST_F(Peers, models_of_transformers_are_imported_with_their_logits) {
  for (const char* how : {"float32 True 1GB", "float16 True 100KB", "bfloat16 False 1GB"}) {
    for (const char* name : {"hf", "run", "l"}) std::filesystem::remove_all(path(name));
    python(R"(
import sys, torch, transformers
torch.manual_seed(1)
config = transformers.GPT2Config(vocab_size=300, n_positions=48, n_embd=64, n_layer=4, n_head=4,
                                 n_inner=100, layer_norm_epsilon=1e-6,
                                 tie_word_embeddings=sys.argv[3] == "True")
model = transformers.GPT2LMHeadModel(config)
for parameter in model.parameters():
    parameter.data.normal_(0, 0.15)
model.to(getattr(torch, sys.argv[2])).save_pretrained(sys.argv[1], max_shard_size=sys.argv[4])
)",
           format("{} {}", path("hf"), how));
    std::string ids;
    for (int i = 0; i < 97; ++i) ids += format("{} ", i * i % 300);
    write_file_atomic(path("ids.txt"), ids);
    must(format("import {} -o {}", path("hf"), path("run")));
    must(format("eval {} --text {} --logits {}", path("run"), path("ids.txt"), path("l")));
    const double difference = largest_difference(path("hf"), path("l"), 48);
    EXPECT_LE(difference, most_difference) << how;
    std::printf("import %s: logits differ by at most %g\n", how, difference);
  }
}

TEST_F(Peers, tokenizers_of_the_hub_have_the_ids_of_the_library_on_ten_thousand_odd_texts) {
  const std::string python = std::getenv("FOURFOLD_PEERS"), texts = path("odd.jsonl"),
                    compare = python + " tests/system/compare_tokenizers.py";
  const auto must_run = [&](const std::string& command) {
    const CommandResult result = run_command(format("{} 2>&1", command));
    EXPECT_EQ(result.code, 0) << result.text;
    return result.text;
  };
  must_run(format("{} tests/unit/data/tokenizers/hub/make_hub.py {} 3000 README.md", python,
                  path("hub")));
  for (const char* kind :
       {"gpt2", "smollm", "llama3", "qwen", "gpt4o", "llama2", "mistral", "metaspace", "gemma"}) {
    SCOPED_TRACE(kind);
    const std::string file = path(format("hub/{}/tokenizer.json", kind)), set = path(kind);
    must_run(format("{} hub-texts {} 10000 {}", compare, texts, file));
    must(format("data tokenize {} -o {} --tokenizer hub --tokenizer-path {}", texts, set, file));
    std::printf("%s", must_run(format("{} hub {} {} {}", compare, file, texts, set)).c_str());
  }
}

TEST_F(Peers, transformers_gives_ten_thousand_odd_texts_the_same_ids_and_its_tokenizers_come_back) {
  write_byte_pairs(path("bpe"));
  const std::string files = "tests/unit/data/tokenizers/",
                    compare = std::string(std::getenv("FOURFOLD_PEERS")) +
                              " tests/system/compare_tokenizers.py";
  const auto must_compare = [&](const std::string& arguments) {
    const CommandResult result =
        run_command(format("{} {} 2> {}", compare, arguments, path("errors.txt")));
    EXPECT_EQ(result.code, 0) << result.text << read_file(path("errors.txt"));
    return result.text;
  };
  must_compare(format("texts {} 10000", path("odd.jsonl")));
  must_compare(format("texts {} 10000 {}", path("known.jsonl"), path("fox.txt")));
  struct Case {
    std::string name, kind, tokenizer, texts, file;
  };
  for (const Case& c : std::vector<Case>{
           {"gpt2", "gpt2", files, "odd", "."},
           {"lossless", "sentencepiece", files + "lossless.model", "odd", "tokenizer.model"},
           {"unigram", "sentencepiece", files + "unigram.model", "odd", "tokenizer.model"},
           {"rules", "sentencepiece", files + "rules.model", "odd", "tokenizer.model"},
           {"byte", "byte", "", "odd", ""},
           {"char", "char", "", "known", ""}}) {
    SCOPED_TRACE(c.name);
    const auto here = [&](const std::string& what) { return path(c.name + "-" + what); };
    const std::string texts = path(c.texts + ".jsonl");
    const auto tokens = [&](const std::string& set, const std::string& kind,
                            const std::string& tokenizer) {
      must(format("data tokenize {} -o {} --tokenizer {} {}", texts, here(set), kind,
                  tokenizer.empty() ? "" : "--tokenizer-path " + tokenizer));
      return read_file(here(set) + ".bin");
    };
    const std::string ids = tokens("set", c.kind, c.tokenizer);
    ASSERT_EQ(
        train(c.name + "-run",
              format("--set train.steps=2 --set model.vocab_size=0 --set data.tokenizer={} {}",
                     c.kind, c.tokenizer.empty() ? "" : "--set data.tokenizer_path=" + c.tokenizer))
            .code,
        0);
    must(format("export {} -o {}", here("run"), here("hf")));
    std::printf(
        "%s: %s", c.name.c_str(),
        must_compare(format("ids {} {} {} saved {}", here("hf"), texts, here("set"), here("saved")))
            .c_str());
    for (const char* model : {"config.json", "model.safetensors"})
      std::filesystem::copy(here("hf") + "/" + model, here("saved") + "/" + model);
    EXPECT_FALSE(file_exists(here("saved") + "/vocab.json"))
        << "newer ones write tokenizer.json alone";
    must(format("import {} -o {}", here("saved"), here("back")));
    EXPECT_EQ(judged(c.name + "-back"), judged(c.name + "-run"));
    if (c.file.empty()) continue;
    // What another tool has written is read as it stands.
    const std::string hub = here("back") + "/fourfold_tokenizer.json";
    const std::string again = file_exists(hub)
                                  ? tokens("again", "hub", hub)
                                  : tokens("again", c.kind, here("back") + "/" + c.file);
    EXPECT_TRUE(again == ids) << "other ids after the way back";
  }
}

TEST_F(Peers, megatron_core_reads_our_sets_and_makes_the_same_bytes_of_their_tokens) {
  if (run_command(format("{} -c 'import megatron.core' 2> {}", std::getenv("FOURFOLD_PEERS"),
                         path("errors.txt")))
          .code != 0)
    GTEST_SKIP() << "FOURFOLD_PEERS names a Python without megatron-core";
  std::string lines;
  for (int i = 0; i < 50; ++i)
    lines += format("{{\"text\": \"{}\"}}\n", std::string(static_cast<std::size_t>(i), 'a'));
  write_file_atomic(path("lines.jsonl"), lines);
  must(format("data tokenize {} -o {} --tokenizer byte", path("lines.jsonl"), path("ours")));
  const std::string read = python(R"(
import sys, numpy, torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
ours = IndexedDataset(sys.argv[1])
theirs = IndexedDatasetBuilder(sys.argv[2] + ".bin", dtype=ours.index.dtype)
for number in range(len(ours)):
    theirs.add_item(torch.from_numpy(numpy.asarray(ours[number], dtype=numpy.int64)))
    theirs.end_document()
theirs.finalize(sys.argv[2] + ".idx")
print([len(ours[number]) for number in range(len(ours))] == list(range(1, 50)), end="")
)",
                                  path("ours") + " " + path("theirs"));
  EXPECT_EQ(read, "True") << "an empty text is no document";
  for (const char* part : {".bin", ".idx"})
    EXPECT_TRUE(read_file(path("theirs") + part) == read_file(path("ours") + part)) << part;
}

TEST_F(Peers, tensorboard_shows_each_step_once_of_a_run_that_was_stopped_and_went_back) {
  const std::string options = "--set log.tensorboard=true --set eval.interval_steps=4";
  ASSERT_EQ(train("run", options + " --stop-at 6").code, 0);
  ASSERT_EQ(train("run", options).code, 0);
  // Steps 7 to 12 are done again, and are there once.
  std::filesystem::remove_all(path("run/checkpoints/step-000000012"));
  ASSERT_EQ(train("run", options).code, 0);
  const std::string text = python(R"(
import sys, json
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
print(json.dumps({
    "steps": [event.step for event in events.Scalars("train/loss")],
    "losses": [event.value for event in events.Scalars("train/loss")],
    "val": [event.step for event in events.Scalars("val/loss")],
    "texts": sorted(events.Tags()["tensors"])}))
)",
                                  path("run/tensorboard"));
  const Json seen = parse_json(text, "the script");
  std::vector<Json> steps;
  for (int step = 1; step <= 12; ++step) steps.emplace_back(step);
  EXPECT_EQ(*seen.find("steps"), Json::array(steps));
  EXPECT_EQ(*seen.find("val"), Json::array({4, 8, 12}));
  EXPECT_EQ(*seen.find("texts"), Json::array({"run/config", "run/plan"}));
  const std::string metrics = read_file(path("run/metrics.jsonl"));
  const Json first = parse_json(metrics.substr(0, metrics.find('\n')), "metrics");
  EXPECT_FLOAT_EQ(static_cast<float>(seen.find("losses")->items()[0].as_double()),
                  static_cast<float>(first.find("loss")->as_double()));
}

}  // namespace
}  // namespace fourfold
