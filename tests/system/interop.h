// A small model and a text that other tools are to take, and a tokenizer of GPT-2's kind. Not what
// is asked of them. Header only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "tokenizer/byte_letters.h"

namespace fourfold {

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

/// A tokenizer of GPT-2's kind, with two merges.
inline void write_byte_pairs(const std::string& folder) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(tokenizer::to_byte_letters(std::string(1, static_cast<char>(byte))));
  tokens.insert(tokens.end(), {"Th", "The", "<|endoftext|>"});
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < tokens.size(); ++id) vocabulary.set(tokens[id], id);
  std::filesystem::create_directories(folder);
  write_file_atomic(folder + "/vocab.json", vocabulary.dump());
  write_file_atomic(folder + "/merges.txt", "#version: 0.2\nT h\nTh e\n");
}

}  // namespace fourfold
