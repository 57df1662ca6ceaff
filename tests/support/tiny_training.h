// Trains a model of a few thousand weights through the binary, in some hundredths of a second.
// Header only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/command.h"

namespace fourfold {

class TinyTraining : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write_file_atomic(path("tiny.yaml"), R"(
model: {hidden_size: 24, num_layers: 2, num_attention_heads: 4, max_position_embeddings: 16, vocab_size: 64}
data: {format: synthetic, seq_length: 16, split: 0.99}
train: {steps: 20, global_batch_size: 8, micro_batch_size: 1}
optimizer: {lr: 1.0e-3}
eval: {interval_steps: 0, batches: 2}
sample: {tokens: 0}
checkpoint: {interval_steps: 4, keep: 9}
log: {interval: 1}
run: {threads: 1}
)");
  }

  /// The words of a `train` into the folder `name`; `more` stands after them.
  std::string training(const std::string& name, const std::string& more = "") const {
    return format("train {} --set run.dir={} {}", path("tiny.yaml"), path(name), more);
  }
  CommandResult train(const std::string& name, const std::string& more = "") const {
    return run_fourfold(training(name, more));
  }
  /// A run that ends as it should.
  void trained(const std::string& name, const std::string& more = "") const {
    const CommandResult result = train(name, more);
    ASSERT_EQ(result.code, 0) << result.text;
  }

  /// The names in a folder, sorted.
  std::vector<std::string> names(const std::string& folder) const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path(folder)))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  /// The steps of the checkpoints there are in a folder of them, rising.
  std::vector<int> steps(const std::string& folder) const {
    std::vector<int> all;
    for (const std::string& name : names(folder))
      if (name.starts_with("step-")) all.push_back(std::stoi(name.substr(5)));
    return all;
  }
  std::string save(const std::string& name, int step) const {
    return path(format("{}/checkpoints/step-{:09}", name, step));
  }
  std::string text(const std::string& name) const { return read_file(path(name)); }
  static bool has(const CommandResult& result, const std::string& words) {
    return result.text.find(words) != std::string::npos;
  }
};

}  // namespace fourfold
