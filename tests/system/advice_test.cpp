// Messages and what they tell to type: each case is wrong in one way, is answered with what was
// found, where, and what to do; and then that is done and works.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "data/work_lock.h"
#include "rundir/run_lock.h"
#include "support/command.h"
#include "support/in_process.h"

namespace fourfold {
namespace {

using test::Outcome;
using test::words_of;

using Environment = std::map<std::string, std::string>;

/// As test::run_here, with variables of the environment.
Outcome run_with(const Environment& environment, const std::string& line) {
  std::vector<std::string> words = words_of("fourfold " + line);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = cli::run(static_cast<int>(argv.size()), argv.data(),
                            [&](const std::string& name) -> std::optional<std::string> {
                              const auto at = environment.find(name);
                              if (at == environment.end()) return std::nullopt;
                              return at->second;
                            });
  std::string output = testing::internal::GetCapturedStdout();
  return {code, testing::internal::GetCapturedStderr(), std::move(output)};
}

struct Advice {
  std::string wrong;  // a command line; # is the folder of the test
  int code;
  std::vector<std::string> says;  // what was found, where, what to do
  std::string right;              // the command line that does that
  Environment environment = {};   // of the wrong one
};

class AdviceThatWorks : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string text, dna;
    for (int i = 0; i < 60; ++i) text += "The red fox ran.\n", dna += "GATTACA";
    write_file_atomic(path("fox.txt"), text);
    write_file_atomic(path("dna.txt"), dna);
    write_file_atomic(path("short.txt"), "fox");
    write_file_atomic(
        path("a.yaml"),
        "model: {num_layers: 1, num_attention_heads: 2, hidden_size: 16, bias: true,\n"
        "  max_position_embeddings: 32}\n"
        "data: {format: text, path: " +
            path("fox.txt") +
            ", tokenizer: byte, seq_length: 16}\n"
            "train: {steps: 2, global_batch_size: 4}\n"
            "checkpoint: {interval_steps: 1}\n"
            "sample: {tokens: 2}\n"
            "eval: {interval_steps: 0, batches: 1}\n"
            "run: {threads: 1, dir: " +
            path("a") + "}\n");
    const Outcome outcome = run_with({}, in_folder("train #a.yaml"));
    ASSERT_EQ(outcome.code, 0) << outcome.text;
  }
  std::string in_folder(std::string line) const {
    for (auto at = line.find('#'); at != line.npos; at = line.find('#'))
      line.replace(at, 1, path(""));
    return line;
  }
  void expect_to_work(const std::vector<Advice>& table) const {
    for (const Advice& advice : table) {
      const Outcome bad = run_with(advice.environment, in_folder(advice.wrong));
      EXPECT_EQ(bad.code, advice.code) << advice.wrong << "\n" << bad.text;
      const std::string told = bad.output + bad.text;
      for (const std::string& words : advice.says)
        EXPECT_NE(told.find(in_folder(words)), std::string::npos) << words << "\n" << told;
      const Outcome good = run_with({}, in_folder(advice.right));
      EXPECT_EQ(good.code, 0) << advice.right << "\n" << good.text;
      EXPECT_EQ((good.output + good.text).find(in_folder(advice.says.front())), std::string::npos)
          << advice.right << "\n"
          << good.output << good.text;
    }
  }
};

TEST_F(AdviceThatWorks, of_training) {
  const std::string dna = "train #a.yaml --set data.path=#dna.txt --set data.tokenizer=char";
  expect_to_work({
      {dna + " --set run.dir=#b --set sample.prompt=x",
       3,
       {"sample.prompt: character \"x\"", "leave it out"},
       dna + " --set run.dir=#b"},
      {dna + " --set run.dir=#c",
       0,
       {"samples begin with \"G\": the text has no \"\\n\"", "the default of sample.prompt",
        "set sample.prompt for another beginning", "or sample.tokens: 0"},
       dna + " --set run.dir=#d --set sample.prompt=TAC"},
      {dna + " --set run.dir=#e",
       0,
       {"samples begin with \"G\"", "sample.tokens: 0 for no sample"},
       dna + " --set run.dir=#f --set sample.tokens=0"},
      {"train #a.yaml --set run.dir=#g --set sample.prompt=0123456789012345678901234567890123",
       0,
       {"sample.prompt has 34 tokens, of which the model sees the last 31",
        "as it knows 32 positions", "shorten the prompt to 31 tokens"},
       "train #a.yaml --set run.dir=#h --set sample.prompt=0123456789012345678901234567890"},
      {"train #a.yaml --set run.dir=#i",
       2,
       {"torchrun (WORLD_SIZE) started 2 tasks", "no way for them to find each other",
        "unset WORLD_SIZE"},
       "train #a.yaml --set run.dir=#i",
       {{"WORLD_SIZE", "2"}, {"RANK", "0"}}},
      {"train #a.yaml --set run.dir=#j",
       2,
       {"flux run started 2 tasks", "no way for them to find each other", "unset FLUX_JOB_SIZE"},
       "train #a.yaml --set run.dir=#j",
       {{"FLUX_JOB_SIZE", "2"}}},
      {"train #a.yaml --set run.dir=#k",
       2,
       {"PALS (mpiexec of HPE Cray) started 2 tasks", "no way for them to find each other",
        "unset PALS_SIZE"},
       "train #a.yaml --set run.dir=#k",
       {{"PALS_SIZE", "2"}}},
  });
}

TEST_F(AdviceThatWorks, of_using_a_model) {
  std::string weights = read_file(path("a/model.safetensors"));
  const float none = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(weights.data() + weights.size() - sizeof none, &none, sizeof none);
  write_file_atomic(path("a/model.safetensors"), weights);
  expect_to_work({
      {"eval #a --text #short.txt --threads 1",
       7,
       {"the loss of token 1 of #short.txt by", "the final weights of #a is nan",
        "choose an earlier checkpoint with --step"},
       "eval #a --text #short.txt --threads 1 --step 1"},
      {"generate #a --step 1 --threads 1 --prompt 01234567890123456789012345678901",
       0,
       {"the prompt has 32 tokens, of which the model sees the last 31", "shorten the prompt to"},
       "generate #a --step 1 --threads 1 --prompt 0123456789012345678901234567890"},
  });
}

TEST_F(AdviceThatWorks, of_bringing_a_model) {
  const auto done = run_with({}, in_folder("export #a -o #hf"));
  ASSERT_EQ(done.code, 0) << done.text;
  write_file_atomic(path("hf/generation_config.json"),
                    R"({"do_sample": true, "temperature": 0.5, "top_k": 3, "max_new_tokens": 4})");
  std::filesystem::remove(path("hf/fourfold_tokenizer.json"));
  const auto told = run_with({}, in_folder("import #hf -o #back"));
  EXPECT_EQ(told.code, 0) << told.text;
  const std::string options = "--temperature 0.5 --top-k 3 --tokens 4";
  EXPECT_NE(told.output.find("generation_config.json has settings that `generate` does not read: "
                             "pass " +
                             options),
            std::string::npos)
      << told.output;
  const auto written =
      run_with({}, in_folder("generate #back --prompt The --threads 1 " + options));
  EXPECT_EQ(written.code, 0) << written.text;
  std::filesystem::remove(path("hf/generation_config.json"));
  struct Wrong {
    const char *file, *content, *note;
  };
  int number = 0;
  write_file_atomic(path("hf/tokenizer_config.json"),
                    R"({"added_tokens_decoder": {"3": {"content": "<a>"}}})");
  for (
      const Wrong& wrong : {
          Wrong{
              "added_tokens.json", R"({"<b>": 3})",
              R"(token 3 is "<a>" by tokenizer_config.json and "<b>" by added_tokens.json; the first is taken)"},
          {"added_tokens.json", R"({"<a>": 4})",
           R"("<a>" is token 3 by tokenizer_config.json and 4 by added_tokens.json; the first is taken)"},
          {"added_tokens.json", "{", "added_tokens.json is left out: "},
          {"generation_config.json", R"({"num_beams": 4})",
           "generation_config.json has settings that there are not here: num_beams"},
          {"generation_config.json", R"({"eos_token_id": [5, 6]})",
           "generation_config.json has 2 tokens that end a text (eos_token_id); the first alone"},
      }) {
    write_file_atomic(path("hf/") + wrong.file, wrong.content);
    const auto import = [&] {
      return run_with({}, in_folder(format("import #hf -o #other{}", ++number)));
    };
    const auto noted = import();
    EXPECT_EQ(noted.code, 0) << noted.text;
    EXPECT_NE(noted.output.find(wrong.note), std::string::npos) << wrong.note << "\n"
                                                                << noted.output;
    EXPECT_NE(
        noted.output.find(in_folder(
            "again    fourfold import #hf -o OTHER, once a file that a note names is corrected")),
        std::string::npos)
        << noted.output;
    std::filesystem::remove(path("hf/") + wrong.file);
    const auto corrected = import();
    EXPECT_EQ(corrected.code, 0) << corrected.text;
    EXPECT_EQ(corrected.output.find(wrong.note), std::string::npos) << corrected.output;
  }
}

/// Each folder beside the one that is wrong is what it becomes where somebody does what is told.
TEST_F(AdviceThatWorks, of_files_and_sets) {
  namespace fs = std::filesystem;
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(path(name)).parent_path());
    write_file_atomic(path(name), text);
  };
  const std::string fox = read_file(path("fox.txt"));
  std::string hen = fox;
  for (std::size_t at = hen.find("fox"); at != hen.npos; at = hen.find("fox"))
    hen.replace(at, 3, "hen");
  for (const char* name :
       {"hidden/a.txt", "hidden/.b.txt", "lost/a.txt", "found/a.txt", "twice/a.txt", "once/a.txt"})
    write(name, fox);
  write("hen.txt", hen);
  fs::create_symlink("nothing", path("lost/b.txt"));
  fs::create_hard_link(path("twice/a.txt"), path("twice/b.txt"));
  write("array.json", R"([{"text": "one"}, {"text": "two"}])");
  write("lines.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");  // as jq writes it
  write("array.json.txt", read_file(path("array.json")));
  write("indented.json", "{\n  \"text\": \"one\"\n}\n");
  write("one.jsonl", "{\"text\": \"one\"}\n");
  write("body.jsonl", "{\"body\": \"one\"}\n");
  const auto tokenize = [](const std::string& inputs) {
    return "data tokenize " + inputs + " -o #out --tokenizer byte --overwrite";
  };
  expect_to_work({
      {tokenize("#hidden"),
       0,
       {"1 name passed over", "#hidden/.b.txt: is hidden", "name it itself to read it"},
       tokenize("#hidden #hidden/.b.txt")},
      {tokenize("#lost"),
       3,
       {"#lost/b.txt: is a link that leads nowhere", "bring what it leads to, or remove it"},
       tokenize("#found")},
      {tokenize("#twice"),
       0,
       {"1 file read twice", "#twice/b.txt: is #twice/a.txt again", "remove one of the two names"},
       tokenize("#once")},
      {tokenize("#array.json"),
       3,
       {"is an array of JSON", "#array.json", "jq -c '.[]'", "end its name in .txt"},
       tokenize("#lines.jsonl")},
      {tokenize("#array.json"),
       3,
       {"is an array of JSON", "to read it as a text"},
       tokenize("#array.json.txt")},
      {tokenize("#indented.json"),
       3,
       {"is an object of JSON in several lines", "#indented.json", "jq -c '.'"},
       tokenize("#one.jsonl")},
      {tokenize("#body.jsonl"),
       3,
       {"#body.jsonl:1", "'text'", "--field"},
       tokenize("#body.jsonl --field body")},
      {"train #a.yaml --set run.dir=#n --set data.validation=#fox.txt",
       0,
       {"what validates is trained on too",
        "#fox.txt of data.validation is also a file of data.path",
        "name other data in data.validation"},
       "train #a.yaml --set run.dir=#o --set data.validation=#hen.txt"},
  });
}

TEST_F(AdviceThatWorks, of_places_that_are_in_use) {
  const std::string tokenize = "data tokenize #fox.txt --tokenizer byte -o #";
  const auto work = std::make_optional<data::WorkLock>(path("set.partial"));
  const rundir::RunLock run(
      path("held"),
      rundir::this_holder([](const std::string&) { return std::optional<std::string>(); }), {});
  expect_to_work({
      {tokenize + "set",
       11,
       {"another process works there", "#set.partial", "choose another name"},
       tokenize + "other"},
      {"train #a.yaml --set run.dir=#held",
       11,
       {"#held is in use by a job on", "wait until it ends",
        "choose another with --set run.dir=..."},
       "train #a.yaml --set run.dir=#free"},
  });
}

TEST_F(AdviceThatWorks, of_machines_and_their_rates) {
  const auto machine = [&](const std::string& name, const std::string& rate) {
    write_file_atomic(
        path(name),
        format(
            "title: a machine of a test\ndevices: 2\n"
            "device:\n  name: none\n  memory: 1 GiB\n  memory_bandwidth: {}\n"
            "  memory_share: 0.8\n  instruction: 1 us\n  slowdown_beside_communication: 1\n"
            "  rates:\n    f32: {{peak: 1 TFLOP/s, efficiency: [{{flops: 1 GFLOP, share: 0.5}}]}}\n"
            "levels:\n  - {{name: host, units: 2, latency: 1 us, link: 1 GB/s, port: 1 GB/s}}\n"
            "node: host\n",
            rate));
  };
  machine("slow.yaml", "1e-306 B/s");
  machine("fast.yaml", "1 GB/s");
  const std::string simulate = "simulate #a.yaml --set precision.compute=fp32 --machine #";
  const std::string bench =
      "bench reshard --case 1 --bytes 4KiB --seconds 0.001 --strategy broadcast ";
  expect_to_work({
      {simulate + "slow.yaml",
       2,
       {"memory_bandwidth is '1e-306 B/s'", "slow.yaml:6:21", "expected 1 to 1e+30 B/s: a rate"},
       simulate + "fast.yaml"},
      {bench + "--rate '1e-305 B/s'",
       2,
       {"--rate '1e-305 B/s': expected a rate", "such as 25 GB/s", "at least 1 B/s"},
       bench + "--rate '25 GB/s'"},
      {bench + "--latency '1e300 s'",
       2,
       {"--latency '1e300 s': expected a time", "such as 5 us", "at most 1000000 s"},
       bench + "--latency '5 us'"},
  });
}

}  // namespace
}  // namespace fourfold
