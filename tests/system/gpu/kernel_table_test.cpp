// A table of measured kernels, from `bench kernels --device cuda` to the run that uses it.
#include <gtest/gtest.h>

#include "support/gpu_commands.h"

namespace fourfold::test {
namespace {

class KernelTableOnGpu : public GpuCommands {
 protected:
  /// Measures; the table's text.
  std::string measured(const std::string& dtype, const Words& sets = {}) {
    Words words{"bench", "kernels",   path("gpt.yaml"), "--device", "cuda", "--dtype",
                dtype,   "--seconds", "0.001",          "-o",       table()};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const Outcome outcome = run_here(words);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    printed_ = outcome.output;
    return read_bytes(table());
  }
  std::string table() const { return path("kernels.yaml"); }
  std::string in_run() const { return "run.kernel_table=" + table(); }

  /// The error of a run with a table of this text.
  std::string error_of(const std::string& text) {
    write_bytes(table(), text);
    const Outcome outcome = with_config("program", {"run.device=cuda", in_run()});
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    const auto first = outcome.text.find("error: ");
    EXPECT_NE(first, std::string::npos);
    EXPECT_EQ(outcome.text.find("error: ", first + 1), std::string::npos) << outcome.text;
    return outcome.text;
  }

  std::string printed_;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string first_replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(KernelTableOnGpu, goes_from_measuring_to_a_program_that_says_so_and_a_run_that_keeps_it) {
  for (const char* dtype : {"bf16", "tf32"}) {
    std::string text = measured(dtype);
    EXPECT_TRUE(has(text, "device: \"")) << text;
    EXPECT_TRUE(has(text, "workspace: ")) << text;
    EXPECT_TRUE(has(text, "op: attention_gradient, ")) << text;
    EXPECT_TRUE(has(printed_, "layer_norm") && has(printed_, "GFLOP/s")) << printed_;
    EXPECT_EQ(has(text, "cublaslt_tf32"), std::string(dtype) == "tf32") << text;
    // One that nobody would choose, so that the program shows whether the table is used.
    const std::string precision = std::string(dtype) == "tf32" ? "fp32" : dtype;
    text = replaced(text, "by: cublaslt_tf32", "by: own");
    for (const char* name : {"/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9"})
      text = replaced(text, name, "");
    text = replaced(text, "by: cublaslt", "by: own");
    write_bytes(table(), text);
    const Words sets{"run.device=cuda", "precision.compute=" + precision, in_run()};
    const Outcome program = with_config("program", sets);
    ASSERT_EQ(program.code, 0) << program.text;
    EXPECT_TRUE(has(program.output, "by own") && !has(program.output, "by cublaslt"));
    train(dtype, sets);
    EXPECT_EQ(read_bytes(path(dtype) + "/kernels.yaml"), text);
  }
}

TEST_F(KernelTableOnGpu, as_measured_is_used_by_runs_that_repeat_their_bits) {
  measured("bf16");
  const Words sets{"run.device=cuda", "precision.compute=bf16", in_run()};
  train("once", sets);
  train("again", sets);
  expect_same_run("once", "again");
}

TEST_F(KernelTableOnGpu, has_kernels_whose_bits_differ_only_where_the_run_may_have_them) {
  const Words without_dropout{"model.dropout=0"},
      any_order{"model.dropout=0", "run.deterministic=false"};
  measured("bf16", without_dropout);
  EXPECT_FALSE(has(printed_, "cudnn_fast")) << printed_;
  const std::string text = measured("bf16", any_order);
  // Where there is a cuDNN that has a kernel for heads of this width.
  EXPECT_EQ(has(printed_, "cudnn_fast"), has(printed_, "cudnn ")) << printed_;
  // A line for what the run must not have is passed over.
  write_bytes(table(), text +
                           "  - {op: attention_gradient, dtype: bf16, threads: 1, by: "
                           "cudnn_fast, gflops: 9}\n");
  Words sets{"run.device=cuda", "precision.compute=bf16", in_run(), "model.dropout=0"};
  const Outcome program = with_config("program", sets);
  EXPECT_EQ(program.code, 0) << program.text;
  EXPECT_TRUE(has(program.output, "attention_gradient"));
  EXPECT_FALSE(has(program.output, "cudnn_fast"));
}

TEST_F(KernelTableOnGpu, is_measured_where_a_long_run_begins_and_kept_where_it_goes_on) {
  // The model is small, but so long a run is worth ten seconds of measuring.
  const Words sets{"run.device=cuda", "precision.compute=bf16", "train.steps=4000000000",
                   "train.global_batch_size=16", "run.dir=" + path("long")};
  const auto train_to = [&](const std::string& step, const Words& more = {}) {
    const Outcome outcome = with_config("train", joined(sets, more), {"--stop-at", step});
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    return outcome.output;
  };
  EXPECT_TRUE(has(train_to("2"), " measured now in "));
  const std::string text = read_bytes(path("long") + "/kernels.yaml");
  EXPECT_TRUE(has(text, "device: \"") && has(text, "by: cublaslt") && has(text, "workspace: "));
  EXPECT_FALSE(has(text, "op: attention")) << text;
  EXPECT_TRUE(has(train_to("4"), "as this run began"));
  EXPECT_EQ(read_bytes(path("long") + "/kernels.yaml"), text);
  EXPECT_FALSE(has(train_to("2", {"run.kernel_table=builtin", "run.dir=" + path("builtin")}),
                   "measured now"));
  EXPECT_FALSE(file_exists(path("builtin") + "/kernels.yaml"));
}

TEST_F(KernelTableOnGpu, that_is_wrong_is_one_error) {
  const std::string text = measured("bf16");
  const auto quoted = text.find("device: \"") + 9;
  EXPECT_TRUE(
      has(error_of(std::string(text).insert(quoted, "another ")), "was measured on 'another "));
  EXPECT_TRUE(
      has(error_of(first_replaced(text, "by: own", "by: hand")), "by is 'hand', expected own"));
  EXPECT_TRUE(has(error_of(first_replaced(text, "version: 1", "version: 7")),
                  "version is '7', expected 1"));
  const std::string of_cpu =
      "version: 1\ncpu: \"x\"\nmatmul:\n  - {dtype: f32, threads: 1, layout: nn, m: 1, n: 1, k: 1, "
      "by: onednn, gflops: 1}\n";
  EXPECT_TRUE(has(error_of(of_cpu), "was measured on 'x', this is '"));
  write_bytes(table(), text);
  const Outcome on_cpu = with_config("program", {"run.device=cpu", in_run()});
  EXPECT_EQ(on_cpu.code, 2);
  EXPECT_TRUE(has(on_cpu.text, "was measured on '")) << on_cpu.text;
}

}  // namespace
}  // namespace fourfold::test
