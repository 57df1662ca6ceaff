// Models that go to other tools and come back, through the binary. Not the tools themselves
// (peers_test.cpp).
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "system/interop.h"

namespace fourfold {
namespace {

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
  const std::string files = "tests/unit/tokenizer/tokenizers/";
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
            "data.tokenizer_path=tests/unit/tokenizer/tokenizers/word.model")
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
  write_file_atomic(copy("phi") + "/config.json", R"({"model_type":"phi"})");
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
           {format("import {} -o {}", path("phi"), out), 4, "model_type"},
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

}  // namespace
}  // namespace fourfold
