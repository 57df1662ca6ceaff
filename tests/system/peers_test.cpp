// Models and tokenizers that go to other tools and come back: against transformers, tokenizers and
// TensorBoard themselves, where FOURFOLD_PEERS names a Python that has them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/text.h"
#include "data/png.h"
#include "system/interop.h"

namespace fourfold {
namespace {

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

TEST_F(Peers, llamas_of_transformers_have_their_logits_and_texts_here_and_go_out_as_they_came) {
  const auto compare = [&](const std::string& arguments) {
    const CommandResult result =
        run_command(format("{} tests/system/compare_llamas.py {} 2> {}",
                           std::getenv("FOURFOLD_PEERS"), arguments, path("errors.txt")));
    EXPECT_EQ(result.code, 0) << arguments << result.text << read_file(path("errors.txt"));
    return result.text;
  };
  std::string ids;
  for (int i = 0; i < 193; ++i) ids += format("{} ", i * i % 320);
  write_file_atomic(path("ids.txt"), ids);
  const std::vector<std::string> prompts = {"0", "7 7 7", "319 2 77 5", "12 13 14 15 16 17", "100"};
  for (const char* kind :
       {"llama", "llama3.2", "qwen2", "qwen3", "smollm2", "mistral", "yarn", "biases"})
    for (const auto& [theirs, ours] :
         {std::pair{"float32", "fp32"}, {"float16", "fp16"}, {"bfloat16", "bf16"}}) {
      SCOPED_TRACE(format("{} {}", kind, theirs));
      for (const char* name : {"hf", "run", "out", "l"}) std::filesystem::remove_all(path(name));
      compare(format("make {} {} {}", kind, theirs, path("hf")));
      must(format("import {} -o {}", path("hf"), path("run")));
      must(format("export {} -o {} --dtype {}", path("run"), path("out"), ours));
      must(format("eval {} --text {} --logits {}", path("run"), path("ids.txt"), path("l")));
      std::string asked = format("bytes {} {}", path("hf"), path("out"));
      for (const char* folder : {"hf", "out"})
        asked += format(" then logits {} {} 96", path(folder), path("l"));
      const std::size_t texts = std::string_view(theirs) == "float32" ? prompts.size() : 0;
      for (std::size_t i = 0; i < texts; ++i) {
        const std::string text = must(format(
            "generate {} --prompt \"{} \" --tokens 60 --temperature 0", path("run"), prompts[i]));
        asked += format(" then greedy {} \"{}\" 60", path("hf"), text.substr(0, text.find('\n')));
      }
      const std::vector<std::string> answers = split(compare(asked), '\n');
      ASSERT_GE(answers.size(), 3 + texts);
      EXPECT_EQ(answers[0], "same");
      for (const std::size_t of_logits : {1U, 2U}) {
        const double difference = std::stod(answers[of_logits]);
        EXPECT_LE(difference, 1e-5);
        std::printf("%s %s %s: logits differ by at most %g of the largest\n", kind, theirs,
                    of_logits == 1 ? "imported" : "exported", difference);
      }
      for (std::size_t i = 0; i < texts; ++i) {
        EXPECT_TRUE(answers[3 + i].starts_with("same")) << prompts[i] << ": " << answers[3 + i];
        std::printf("%s \"%s\": 60 greedy tokens: %s\n", kind, prompts[i].c_str(),
                    answers[3 + i].c_str());
      }
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
  must_run(format("{} tests/unit/tokenizer/tokenizers/hub/make_hub.py {} 3000 README.md", python,
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
  const std::string files = "tests/unit/tokenizer/tokenizers/",
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
