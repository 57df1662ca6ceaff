// Figures, pictures and texts that commands show: none is made of weights that are no numbers, and
// each is what its name says. Through the commands, with models that are trained for some steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "data/png.h"
#include "support/picture_runs.h"
#include "tokenizer/byte_letters.h"

namespace fourfold {
namespace {

using test::Outcome;
using test::run_here;

/// Writes `value` over the last number of a file of weights in f32.
void spoil(const std::string& path, float value) {
  std::string bytes = read_file(path);
  std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
  write_file_atomic(path, bytes);
}

class SpoiltUnet : public PictureRuns {
 protected:
  SpoiltUnet() : PictureRuns("unet") {}
  void SetUp() override {
    FolderTest::SetUp();
    write_small_unet();
    const Outcome outcome = train("a", {"precision.compute=fp32", "train.steps=2"});
    ASSERT_EQ(outcome.code, 0) << outcome.text;
  }
};

TEST_F(SpoiltUnet, makes_no_pictures_and_is_not_judged_in_bits) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    spoil(path("a/model.safetensors"), value);
    for (const char* sampler : {"ddim", "ddpm"})
      for (const char* steps : {"1", "3"}) {
        const Outcome made = run_here({"generate", path("a"), "-o", path("a.png"), "--samples", "1",
                                       "--sampler", sampler, "--steps", steps, "--threads", "1"});
        EXPECT_EQ(made.code, 7) << sampler << " " << steps << "\n" << made.text;
        EXPECT_NE(made.text.find("picture 1 has values that are no numbers"), std::string::npos)
            << made.text;
        EXPECT_FALSE(file_exists(path("a.png")));
      }
    for (const char* how : {"--json", "--pictures=16"}) {
      const Outcome judged =
          run_here({"eval", path("a"), "--data", path("set"), how, "--threads", "1"});
      EXPECT_EQ(judged.code, 7) << judged.text;
      EXPECT_EQ(judged.output, "");
      EXPECT_NE(judged.text.find("the bound of"), std::string::npos) << judged.text;
      EXPECT_NE(judged.text.find("expected a finite number"), std::string::npos) << judged.text;
    }
  }
}

/// With a start that is predicted from noise alone, the picture is not the noise.
TEST_F(SpoiltUnet, a_single_step_begins_at_the_time_of_the_most_noise) {
  const auto pixels = [&](const char* sampler, const char* steps) {
    const std::string file = path(format("{}{}.png", sampler, steps));
    const Outcome made = run_here({"generate", path("a"), "-o", file, "--samples", "1", "--sampler",
                                   sampler, "--steps", steps, "--seed", "5", "--threads", "1"});
    EXPECT_EQ(made.code, 0) << made.text;
    return read_file(file);
  };
  // The last of the schedule's times is the only one, where the start is x / signal: nearly all
  // pixels are as dark or bright as can be. The start noise itself would have few of these.
  for (const char* sampler : {"ddim", "ddpm"}) {
    const std::string bytes = pixels(sampler, "1");
    std::vector<std::uint8_t> values(8 * 8 * 3);
    ASSERT_FALSE(data::decode_png(std::as_bytes(std::span(bytes)), {8, 8, 3}, values));
    const auto ends = std::ranges::count_if(values, [](int v) { return v == 0 || v == 255; });
    EXPECT_GT(ends, std::ssize(values) * 3 / 4) << sampler;
  }
}

/// Rates of a machine's file may be of any size; the times that follow may not.
TEST_F(SpoiltUnet, no_time_that_is_not_finite_is_told_of_a_machine) {
  const auto simulate = [&](const std::string& rate, const std::string& latency,
                            const Words& more) {
    write_file_atomic(path("m.yaml"),
                      format("title: a machine of a test\ndevices: 2\n"
                             "device:\n  name: none\n  memory: 1 GiB\n  memory_bandwidth: {0}\n"
                             "  memory_share: 0.8\n  instruction: 1 us\n"
                             "  slowdown_beside_communication: 1\n"
                             "  rates:\n    f32: {{peak: {1}, efficiency: [{{flops: 1 GFLOP, "
                             "share: 0.5}}]}}\n"
                             "levels:\n  - {{name: host, units: 2, latency: {2}, link: {0}, port: "
                             "{0}}}\nnode: host\n",
                             rate, "1 TFLOP/s", latency));
    Words words = {"simulate",  config(),      "--set", "precision.compute=fp32",
                   "--machine", path("m.yaml")};
    words.insert(words.end(), more.begin(), more.end());
    return run_here(words);
  };
  for (const Words& more : {Words{}, Words{"--format", "json"}, Words{"--sweep", "ranks=1,2"},
                            Words{"--sweep", "ranks=2", "--format", "json"}}) {
    const Outcome good = simulate("1 GB/s", "1 us", more);
    EXPECT_EQ(good.code, 0) << good.text;
    for (const auto& [rate, latency] :
         {std::pair("1e-306 B/s", "1 us"), std::pair("1 GB/s", "1e308 s")}) {
      const Outcome bad = simulate(rate, latency, more);
      EXPECT_EQ(bad.code, 2) << rate << latency << bad.output << bad.text;
      EXPECT_NE(bad.text.find(latency == std::string("1 us")
                                  ? "memory_bandwidth is '1e-306 B/s', expected 1 to 1e+30 B/s"
                                  : "latency is '1e308 s', expected 1e-12 to 1e+06 s"),
                std::string::npos)
          << bad.text;
      EXPECT_EQ(bad.output.find("inf"), std::string::npos) << bad.output;
    }
  }
}

class TextFigures : public FolderTest {
 protected:
  Outcome train(const std::string& run, const std::string& text, const std::string& tokenizer,
                const Words& sets = {}) const {
    write_file_atomic(path(run + ".txt"), text);
    write_file_atomic(path(run + ".yaml"),
                      format("model: {{num_layers: 1, num_attention_heads: 2, hidden_size: 16}}\n"
                             "data: {{format: text, path: {}, tokenizer: {}, seq_length: 16}}\n"
                             "train: {{steps: 2, global_batch_size: 4}}\n"
                             "eval: {{interval_steps: 0, batches: 1}}\n"
                             "run: {{threads: 1, dir: {}}}\n",
                             path(run + ".txt"), tokenizer, path(run)));
    Words words = {"train", path(run + ".yaml")};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    return run_here(words);
  }
  static std::string repeated(const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  }
};

TEST_F(TextFigures, no_loss_of_weights_that_are_no_numbers_is_shown) {
  ASSERT_EQ(train("a", repeated("The red fox ran.\n", 100), "byte").code, 0);
  spoil(path("a/model.safetensors"), std::numeric_limits<float>::quiet_NaN());
  write_file_atomic(path("b.txt"), "The fox");
  for (const Words& more : {Words{}, Words{"--json"}, Words{"--logits", path("logits")}}) {
    Words words = {"eval", path("a"), "--text", path("b.txt"), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome judged = run_here(words);
    EXPECT_EQ(judged.code, 7) << judged.text;
    EXPECT_EQ(judged.output, "");
    EXPECT_NE(judged.text.find("the loss of token 1 of"), std::string::npos) << judged.text;
  }
  EXPECT_FALSE(file_exists(path("logits")));
}

double row_of(const std::string& table, const std::string& name) {
  const auto at = table.find(name);
  return at == table.npos ? NAN : std::stod(table.substr(at + name.size()));
}

TEST_F(TextFigures, bits_are_of_the_bytes_of_the_tokens_that_are_predicted) {
  ASSERT_EQ(train("a", repeated("The red fox ran.\n", 100), "byte").code, 0);
  // The second text's character of three bytes is no first token: bytes are tokens of their own.
  for (const std::string text : {"ab", "\xE2\x82\xAC", "The fox ran."}) {
    write_file_atomic(path("b.txt"), text);
    const Outcome judged = run_here({"eval", path("a"), "--text", path("b.txt"), "--threads", "1"});
    ASSERT_EQ(judged.code, 0) << judged.text;
    // One token a byte, so that bits of a byte are the loss of a token; both rows are rounded.
    EXPECT_NEAR(row_of(judged.output, "bits/byte"), row_of(judged.output, "loss") / std::log(2.0),
                1e-4)
        << text << judged.output;
  }
}

/// With characters as tokens the first one may have several bytes.
TEST_F(TextFigures, bits_leave_out_all_bytes_of_a_first_character) {
  ASSERT_EQ(train("c", repeated("\xE2\x82\xAC is a sign.\n", 100), "char").code, 0);
  write_file_atomic(path("b.txt"), "\xE2\x82\xAC i");
  const Outcome judged = run_here({"eval", path("c"), "--text", path("b.txt"), "--threads", "1"});
  ASSERT_EQ(judged.code, 0) << judged.text;
  EXPECT_NEAR(row_of(judged.output, "bits/byte"), row_of(judged.output, "loss") / std::log(2.0),
              1e-4)
      << judged.output;
}

TEST_F(TextFigures, a_prompt_that_is_longer_than_the_model_sees_is_told) {
  const std::string long_prompt(300, 'T');
  const Outcome trained = train("a", repeated("The red fox ran.\n", 100), "byte",
                                {"model.max_position_embeddings=32", "sample.tokens=3",
                                 "sample.prompt=" + std::string(33, 'T')});
  ASSERT_EQ(trained.code, 0) << trained.text;
  EXPECT_NE((trained.output + trained.text)
                .find("sample.prompt has 33 tokens, of which the model sees the last 31"),
            std::string::npos)
      << trained.output;
  const auto told = [&](const std::string& prompt) {
    const Outcome made =
        run_here({"generate", path("a"), "--prompt", prompt, "--tokens", "2", "--threads", "1"});
    EXPECT_EQ(made.code, 0) << made.text;
    return made.text;
  };
  const std::string note = told(long_prompt);
  EXPECT_NE(note.find("the prompt has 300 tokens, of which the model sees the last 31, as it knows "
                      "32 positions; shorten the prompt to 31 tokens"),
            std::string::npos)
      << note;
  EXPECT_EQ(told(std::string(31, 'T')), "") << "what the note tells to do ends it";
  EXPECT_NE(told(std::string(32, 'T')), "");
  write_file_atomic(path("prompt.txt"), long_prompt);
  const Outcome from_file = run_here({"generate", path("a"), "--prompt-file", path("prompt.txt"),
                                      "--tokens", "2", "--threads", "1"});
  EXPECT_NE(from_file.text.find("the prompt has 300 tokens"), std::string::npos) << from_file.text;
}

TEST_F(TextFigures, a_text_without_the_usual_prompt_begins_samples_with_its_own_letter) {
  const Outcome trained = train("dna", repeated("GATTACA", 100), "char", {"sample.tokens=5"});
  ASSERT_EQ(trained.code, 0) << trained.text;
  EXPECT_NE((trained.output + trained.text).find("samples begin with \""), std::string::npos);
  const std::string sample = read_file(path("dna/sample.txt"));
  EXPECT_EQ(sample.find_first_not_of("GATC\n"), std::string::npos) << sample;
  EXPECT_EQ(sample.size(), 1 + 5 + 1U) << sample;
  // The run keeps the prompt, so that it can be continued, judged and written with.
  const Outcome made = run_here({"generate", path("dna"), "--tokens", "4", "--threads", "1"});
  EXPECT_EQ(made.code, 0) << made.text;
  const Outcome again =
      train("dna", repeated("GATTACA", 100), "char", {"sample.tokens=5", "train.steps=3"});
  EXPECT_NE(again.text.find("train.steps"), std::string::npos) << again.text;
  EXPECT_EQ(again.text.find("sample.prompt"), std::string::npos) << again.text;
  const Outcome set = train("set", repeated("GATTACA", 100), "char", {"sample.prompt=x"});
  EXPECT_EQ(set.code, 3);
  EXPECT_NE(set.text.find("sample.prompt: character"), std::string::npos) << set.text;
}

/// Each file that may name the end is the only one that does.
TEST_F(TextFigures, a_text_ends_with_the_token_that_any_file_of_an_imported_model_names) {
  const auto does = [](const std::string& line) {
    const Outcome outcome = run_here(line);
    EXPECT_EQ(outcome.code, 0) << line << "\n" << outcome.text;
    return outcome.output;
  };
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.set(tokenizer::to_byte_letters(std::string(1, static_cast<char>(byte))), byte);
  vocabulary.set("Th", 256).set("The", 257).set("<|endoftext|>", 258);
  write_file_atomic(path("vocab.json"), vocabulary.dump());
  write_file_atomic(path("merges.txt"), "#version: 0.2\nT h\nTh e\n");
  write_file_atomic(path("the.jsonl"), repeated("{\"text\":\"The\"}\n", 300));
  does(
      format("data tokenize {0}the.jsonl -o {0}the --tokenizer gpt2 --tokenizer-path {0} "
             "--append-eod",
             path("")));
  ASSERT_EQ(train("a", "", "char",
                  {"data.format=megatron", "data.path=" + path("the"), "optimizer.lr=0.05",
                   "lr_schedule.warmup_steps=2", "train.steps=150", "model.bias=true",
                   "model.hidden_size=32"})
                .code,
            0);
  const std::string writes = " --prompt The --temperature 0 --tokens 4 --threads 1";
  ASSERT_EQ(does("generate " + path("a") + writes), "The\n");
  does(format("export {} -o {}", path("a"), path("hf")));
  std::string words = read_file(path("hf/vocab.json"));
  write_file_atomic(path("hf/vocab.json"), words.replace(words.find("<|endoftext|>"), 13, "</s>"));
  const Json own = parse_json(read_file(path("hf/config.json")), "config.json");
  ASSERT_EQ(*own.find("eos_token_id"), Json(258));
  const std::string without_end = Json(own).set("eos_token_id", Json()).dump();
  for (const char* name : {"tokenizer.json", "fourfold_tokenizer.json", "tokenizer_config.json",
                           "generation_config.json"})
    std::filesystem::remove(path("hf/") + name);
  for (const auto& [name, content] : std::vector<std::pair<std::string, std::string>>{
           {"generation_config.json", R"({"eos_token_id": [258]})"},
           {"tokenizer_config.json", R"({"eos_token": "</s>"})"},
           {"special_tokens_map.json", R"({"eos_token": {"content": "</s>"}})"},
           {"config.json", own.dump()}}) {
    write_file_atomic(path("hf/config.json"), without_end);
    write_file_atomic(path("hf/") + name, content);
    const std::string back = path("by-" + name), again = path("from-" + name);
    EXPECT_EQ(does(format("import {} -o {}", path("hf"), back)).find("note: "), std::string::npos)
        << name;
    EXPECT_EQ(does("generate " + back + writes), "The\n") << name;
    does(format("export {} -o {}", back, again));
    const Json config = parse_json(read_file(again + "/config.json"), "config.json");
    EXPECT_EQ(*config.find("eos_token_id"), Json(258)) << name;
    EXPECT_NE(read_file(again + "/tokenizer_config.json").find(R"("eos_token":"</s>")"),
              std::string::npos)
        << name;
    std::filesystem::remove(path("hf/") + name);
  }
  write_file_atomic(path("hf/config.json"), without_end);
  does(format("import {} -o {}", path("hf"), path("none")));
  EXPECT_NE(does("generate " + path("none") + writes), "The\n") << "no file names the end";
  // What a text begins with where no prompt is given: after "The" the model ends it.
  const std::string empty = " --prompt '' --temperature 0 --tokens 4 --threads 1";
  EXPECT_EQ(does("generate " + path("a") + empty), "The\n") << "after the end of another text";
  write_file_atomic(path("hf/config.json"), Json(own).set("bos_token_id", Json(257)).dump());
  EXPECT_EQ(does(format("import {} -o {}", path("hf"), path("begun"))).find("note: "),
            std::string::npos);
  EXPECT_EQ(does("generate " + path("begun") + empty), "\n");
  does(format("export {} -o {}", path("begun"), path("from-begun")));
  const Json begun = parse_json(read_file(path("from-begun/config.json")), "config.json");
  EXPECT_EQ(*begun.find("bos_token_id"), Json(257));
  EXPECT_EQ(*begun.find("eos_token_id"), Json(258));
  // Bits of a byte leave out the three bytes of the first token.
  write_file_atomic(path("b.txt"), "TheThe");
  const Outcome judged = run_here({"eval", path("a"), "--text", path("b.txt"), "--threads", "1"});
  EXPECT_NEAR(row_of(judged.output, "bits/byte"), row_of(judged.output, "loss") / std::log(2.0) / 3,
              1e-4)
      << judged.output;
}

}  // namespace
}  // namespace fourfold
