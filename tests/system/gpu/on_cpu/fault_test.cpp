// What a GPU of the test's own can be made to do: have little memory, be another one, measure by a
// made-up clock, be lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "support/cli_on_cpu.h"
#include "support/gpu_commands.h"

namespace fourfold::test {
namespace {

class FakeGpuCommands : public GpuCommands {
 protected:
  ~FakeGpuCommands() override { fake_cuda() = {}; }
  Outcome train_on_gpu(const std::string& name) {
    return with_config("train", {"run.device=cuda", "run.dir=" + path(name)});
  }
};

void expect_one_line(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code);
  EXPECT_NE(outcome.text.find(part), std::string::npos) << outcome.text;
  EXPECT_EQ(std::ranges::count(outcome.text, '\n'), 1) << outcome.text;
}

TEST_F(FakeGpuCommands, too_little_memory_is_refused_before_anything_is_written) {
  // 1.5 GiB stay free for libraries that load late: the run itself has nothing here.
  fake_cuda().free_bytes = std::int64_t{3} << 29;
  const Outcome outcome = train_on_gpu("run");
  expect_one_line(outcome, 5, "1.50 GiB for libraries that load late");
  EXPECT_NE(outcome.text.find("reduce train.micro_batch_size"), std::string::npos);
  EXPECT_FALSE(file_exists(path("run") + "/metrics.jsonl"));
  constexpr std::int64_t needed_at_most = std::int64_t{1} << 20;
  fake_cuda().free_bytes += needed_at_most;
  EXPECT_EQ(train_on_gpu("run").code, 0);
}

TEST_F(FakeGpuCommands, a_gpu_that_is_lost_in_mid_run_ends_it_with_13_and_the_run_goes_on_later) {
  train("whole", {"run.device=cuda"});
  const Words saving{"run.device=cuda", "checkpoint.interval_steps=2", "run.dir=" + path("lost")};
  // After the first checkpoint and before the last step: evaluations take a fifth of the work.
  fake_cuda().lost_behind_works = fake_cuda().works * 11 / 20;
  const Outcome outcome = with_config("train", saving);
  expect_one_line(outcome, 13, "the GPU was lost");
  EXPECT_NE(outcome.text.find("rank 0"), std::string::npos) << outcome.text;
  const auto steps_before = steps("lost").size();
  EXPECT_GE(steps_before, 2U);
  EXPECT_LT(steps_before, 6U);
  EXPECT_TRUE(file_exists(path("lost") + "/checkpoints/LATEST"));
  fake_cuda() = {};
  train("lost", {"run.device=cuda", "checkpoint.interval_steps=2"});
  expect_same_run("whole", "lost");
}

TEST_F(FakeGpuCommands, a_table_names_the_fastest_by_the_clock_and_is_refused_on_other_libraries) {
  const std::string table = path("kernels.yaml");
  ASSERT_EQ(run_here({"bench", "kernels", path("gpt.yaml"), "--device", "cuda", "--dtype", "bf16",
                      "--seconds", "0.001", "-o", table})
                .code,
            0);
  const std::string text = read_bytes(table);
  EXPECT_NE(text.find("device: \"a fake GPU; cuBLASLt 1.2.3; cuDNN 1.2.3\""), std::string::npos)
      << text;
  const Words sets{"run.device=cuda", "precision.compute=bf16", "run.kernel_table=" + table};
  const Outcome program = with_config("program", sets);
  // The last candidate takes the fewest launches.
  EXPECT_NE(program.output.find("by cublaslt/2"), std::string::npos) << text;
  EXPECT_EQ(program.output.find("by cublaslt "), std::string::npos);
  fake_cuda().library_version = "1.2.4";
  expect_one_line(
      with_config("program", sets), 2,
      "was measured on 'a fake GPU; cuBLASLt 1.2.3; cuDNN 1.2.3', this is 'a fake GPU; cuBLASLt "
      "1.2.4; cuDNN 1.2.4'");
}

}  // namespace
}  // namespace fourfold::test
