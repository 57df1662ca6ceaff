// Pages about runs, through the binary.
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/command.h"

namespace fourfold {
namespace {

class Report : public FolderTest {
 protected:
  void train(const std::string& name, const std::string& more) const {
    std::string text;
    for (int i = 0; i < 200; ++i) text += format("The quick brown fox {} jumps.\n", i % 7);
    write_file_atomic(path("fox.txt"), text);
    const CommandResult result = run_fourfold(
        format("train configs/gpt-shakespeare-char.yaml --set data.path={} --set run.dir={} --set "
               "run.name={} --set train.steps=8 --set lr_schedule.warmup_steps=2 --set "
               "model.hidden_size=32 --set model.num_layers=1 --set data.seq_length=16 --set "
               "sample.tokens=20 --set eval.batches=1 --set train.global_batch_size=4 {}",
               path("fox.txt"), path(name), name, more));
    ASSERT_EQ(result.code, 0) << result.text;
  }
  /// The page about these runs.
  std::string page(const std::string& runs) const {
    const CommandResult result = run_fourfold(format("report {} -o {}", runs, path("page.html")));
    EXPECT_EQ(result.code, 0) << result.text;
    return read_file(path("page.html"));
  }
};

TEST_F(Report, two_runs_are_compared_on_a_page_that_needs_nothing_else) {
  train("fast", "--set optimizer.lr=3e-3");
  train("slow", "--set optimizer.lr=1e-4");
  const std::string text = page(path("fast") + " " + path("slow"));
  for (const char* word :
       {"<!DOCTYPE html>", "2 runs compared", "Training loss", "Validation loss", "Gradient norm",
        "Learning rate", "Tokens per second", "Step time", "optimizer.lr", "0.003", "0.0001",
        "Samples", "Checkpoints", "host.cpu", "prefers-color-scheme", "line c0", "line c1"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
  for (const char* word : {"<script", "http:", "https:", "src=", "<link"})
    EXPECT_EQ(text.find(word), std::string::npos) << word;
}

TEST_F(Report, what_is_missing_or_torn_is_said_and_the_rest_is_shown) {
  train("run", "");
  write_file_atomic(path("run/metrics.jsonl"),
                    read_file(path("run/metrics.jsonl")) + "{\"step\": 9, \"lo");
  write_file_atomic(path("run/env.json"), "{");
  write_file_atomic(path("run/sample.txt"), "<script>alert(1)</script>");
  std::filesystem::remove(path("run/config.resolved.yaml"));
  const std::string text = page(path("run"));
  for (const char* word : {"left out: 1", "config.resolved.yaml is missing",
                           "env.json:1:", "&lt;script&gt;alert", "line c0"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
  EXPECT_EQ(text.find("<script"), std::string::npos);
  std::filesystem::remove(path("run/metrics.jsonl"));
  write_file_atomic(path("run/config.resolved.yaml"), "model: [");
  EXPECT_NE(page(path("run")).find("there is no metrics.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace fourfold
