// The program's commands on the GPU of support/gpu.h, with runs in a folder of the test. Header
// only.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "support/gpu.h"
#include "support/in_process.h"
#include "support/step_metrics.h"
#include "unit/checkpoint/temporary_folder.h"

namespace fourfold::test {

using Words = std::vector<std::string>;

class GpuCommands : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string reason = why_no_gpu();
    if (!reason.empty()) GTEST_SKIP() << "no CUDA device: " << reason;
    // Its last evaluation takes the whole split: some samples.
    write_bytes(path("gpt.yaml"), R"(
model: {num_layers: 2, num_attention_heads: 2, hidden_size: 16, vocab_size: 31, dropout: 0.1}
data: {format: synthetic, seq_length: 12, split: 0.9995}
train: {steps: 6, global_batch_size: 4, micro_batch_size: 2}
optimizer: {lr: 1.0e-2}
lr_schedule: {kind: constant, warmup_steps: 0}
eval: {interval_steps: 3, batches: 1}
checkpoint: {async: false, interval_minutes: 0, interval_steps: 100}
sample: {tokens: 0}
)");
  }

  std::string path(const std::string& name) const { return folder_.file(name); }

  /// `fourfold COMMAND gpt.yaml` with these settings and words.
  Outcome with_config(const std::string& command, const Words& sets, const Words& more = {}) const {
    Words words{command, path("gpt.yaml")};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    words.insert(words.end(), more.begin(), more.end());
    return run_here(words);
  }
  /// Trains in the folder `name`, which goes on where it was stopped; must succeed.
  void train(const std::string& name, Words sets, const Words& more = {}) const {
    sets.push_back("run.dir=" + path(name));
    const Outcome outcome = with_config("train", sets, more);
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.text;
  }

  std::vector<StepMetrics> steps(const std::string& name) const { return steps_of(path(name)); }
  std::string weights(const std::string& name) const {
    return read_bytes(path(name) + "/model.safetensors");
  }
  void expect_same_run(const std::string& one, const std::string& other) const {
    EXPECT_FALSE(steps(one).empty());
    expect_equal_steps(steps(one), steps(other), 0);
    EXPECT_FALSE(weights(one).empty());
    EXPECT_TRUE(weights(one) == weights(other)) << one << " and " << other;
  }

 private:
  TemporaryFolder folder_;
};

inline Words on(const std::string& device, const std::string& precision = "fp32") {
  return {"run.device=" + device, "precision.compute=" + precision};
}
inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace fourfold::test
