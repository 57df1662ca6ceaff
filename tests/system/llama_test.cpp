// A Llama through the binary: trained, gone on with on other grids, written with, exported and
// imported.
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "support/step_metrics.h"
#include "system/interop.h"

namespace fourfold {
namespace {

class LlamaRuns : public Interop {
 protected:
  void SetUp() override {
    Interop::SetUp();
    write_file_atomic(path("llama.yaml"), R"(
model: {kind: llama, num_layers: 4, num_attention_heads: 6, num_key_value_heads: 2, head_dim: 8,
  hidden_size: 32, ffn_hidden_size: 48, attention_bias: qkv, rope: {kind: yarn, factor: 2, original_positions: 8}}
data: {seq_length: 16, tokenizer: char}
train: {steps: 12, global_batch_size: 4}
lr_schedule: {warmup_steps: 2}
checkpoint: {interval_steps: 6}
eval: {batches: 1}
sample: {tokens: 0}
)");
  }
  CommandResult train_llama(const std::string& name, const std::string& more = "") const {
    return run_fourfold(format("train {} --set data.path={} --set run.dir={} {}",
                               path("llama.yaml"), path("fox.txt"), path(name), more));
  }
  double last_loss(const std::string& name) const {
    const std::vector<test::StepMetrics> steps = test::steps_of(path(name));
    EXPECT_EQ(steps.size(), 12U) << name;
    return steps.back().loss;
  }
};

TEST_F(LlamaRuns, go_on_from_grids_and_stages_on_others) {
  const std::string f64 = "--set precision.compute=fp64 ",
                    on_x = "--set parallel.tensor.x=2 --set optimizer.shard=states",
                    on_y = "--set parallel.tensor.y=2",
                    staged = "--set parallel.pipeline.stages=2 --set train.micro_batch_size=2";
  ASSERT_EQ(train_llama("serial", f64).code, 0);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"", on_y}, {on_x, staged}, {staged, on_x + " --set parallel.data=2"}, {on_y, ""}}) {
    SCOPED_TRACE(format("from '{}' to '{}'", from, to));
    std::filesystem::remove_all(path("run"));
    ASSERT_EQ(train_llama("run", f64 + from + " --stop-at 6").code, 0);
    const CommandResult on = train_llama("run", f64 + to);
    ASSERT_EQ(on.code, 0) << on.text;
    EXPECT_NE(on.text.find("going on from step 6"), std::string::npos) << on.text;
    EXPECT_NEAR(last_loss("run"), last_loss("serial"), 1e-10);
  }
}

TEST_F(LlamaRuns, write_the_same_text_with_and_without_a_cache) {
  const std::vector<std::string> kinds = {
      "", "--set 'model={num_key_value_heads: 1, attention_bias: none, head_norm: true}'",
      "--set 'model={num_key_value_heads: 6, attention_bias: all, mlp_bias: true, tied_head: "
      "false}' --set model.rope.kind=llama3"};
  for (const std::string& kind : kinds) {
    SCOPED_TRACE(kind);
    std::filesystem::remove_all(path("run"));
    const CommandResult trained = train_llama("run", "--set sample.tokens=20 " + kind);
    ASSERT_EQ(trained.code, 0) << trained.text;
    for (const char* how :
         {"--tokens 14 --temperature 0", "--tokens 60 --temperature 0.9 --seed 3"}) {
      const std::string options = format("{} --prompt The {}", path("run"), how);
      EXPECT_EQ(must("generate " + options), must("generate --no-cache " + options)) << how;
    }
  }
}

TEST_F(LlamaRuns, that_were_exported_and_imported_compute_the_same_bits) {
  ASSERT_EQ(train_llama("run", "--set parallel.tensor.x=2").code, 0);
  for (const char* how : {"", "--untie", "--max-shard-size 20KB", "--step 12"}) {
    std::filesystem::remove_all(path("hf"));
    std::filesystem::remove_all(path("back"));
    const std::string gone = must(format("export {} -o {} {}", path("run"), path("hf"), how));
    EXPECT_NE(gone.find("Qwen2ForCausalLM.from_pretrained"), std::string::npos) << gone;
    must(format("import {} -o {}", path("hf"), path("back")));
    EXPECT_EQ(judged("back"), judged("run")) << how;
  }
  const std::string sample = "--prompt The --tokens 30 --temperature 0.9 --seed 3";
  EXPECT_EQ(must(format("generate {} {}", path("back"), sample)),
            must(format("generate {} {}", path("run"), sample)));
  // It trains further, its positions as they were.
  const CommandResult more = run_fourfold(
      format("train {} --set run.init_from={} --set run.dir={} --set data.path={} --set "
             "optimizer.lr=1e-4 --set train.steps=3 --set train.global_batch_size=4 --set "
             "lr_schedule.warmup_steps=0 --set sample.tokens=0",
             path("back/config.resolved.yaml"), path("back"), path("more"), path("fox.txt")));
  EXPECT_EQ(more.code, 0) << more.text;
}

TEST_F(LlamaRuns, refuse_a_text_beyond_the_positions_that_were_trained) {
  ASSERT_EQ(train_llama("run", "--set train.steps=2 --set lr_schedule.warmup_steps=0").code, 0);
  const CommandResult wide =
      run_fourfold(format("eval {} --text {} --window 17", path("run"), path("short.txt")));
  EXPECT_EQ(wide.code, 2) << wide.text;
  EXPECT_NE(wide.text.find("--window 17: the model knows 16 positions"), std::string::npos)
      << wide.text;
}

}  // namespace
}  // namespace fourfold
