// run.device where no GPU answers, or this build has no CUDA: what can be planned, what is refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/format.h"
#include "measure/cuda_parts.h"
#include "support/in_process.h"

namespace fourfold {
namespace {

using machine::CudaState;
using test::run_here;

class RunDevice : public testing::Test {
 protected:
  const machine::CudaFacts facts_ = measure::cuda_facts();
  void SetUp() override {
    if (facts_.state == CudaState::ready) GTEST_SKIP() << "a GPU answers here";
  }
  bool has_cuda() const { return facts_.state != CudaState::not_built; }
  static test::Outcome run(const std::string& command, const std::string& keys) {
    return run_here(format("{} {}/configs/gpt-tiny.yaml --set run.dir={}device_test {}", command,
                           FOURFOLD_SOURCE_DIR, testing::TempDir(), keys));
  }
};

TEST_F(RunDevice, a_gpu_that_is_not_there_ends_a_run_with_13_and_one_line_that_says_what_to_do) {
  const test::Outcome outcome = run("train", "--set run.device=cuda");
  EXPECT_EQ(outcome.code, 13);
  EXPECT_NE(outcome.text.find("run.device = cuda: " + trouble(facts_)), std::string::npos)
      << outcome.text;
  EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
}

TEST_F(RunDevice, a_build_with_cuda_plans_for_a_gpu_where_there_is_none) {
  for (const char* command : {"plan", "program", "verify"}) {
    const test::Outcome outcome = run(command, "--set run.device=cuda");
    EXPECT_EQ(outcome.code, has_cuda() ? 0 : 13) << command << ": " << outcome.text;
  }
}

TEST_F(RunDevice, auto_is_the_cpu_for_every_command) {
  for (const char* command : {"plan", "program", "verify", "train --dry-run"})
    EXPECT_EQ(run(command, "--set run.device=auto").code, 0) << command;
}

TEST_F(RunDevice, what_one_gpu_cannot_do_is_refused_with_the_keys_to_change) {
  if (!has_cuda()) GTEST_SKIP() << "this build has no CUDA";
  const auto doubles = run("plan", "--set run.device=cuda --set precision.compute=fp64");
  EXPECT_EQ(doubles.code, 2);
  EXPECT_NE(doubles.text.find("precision.compute = fp64"), std::string::npos) << doubles.text;
}

TEST_F(RunDevice, several_ranks_are_planned_for_a_gpu_that_is_asked_for_and_for_the_cpu_otherwise) {
  if (!has_cuda()) GTEST_SKIP() << "this build has no CUDA";
  const auto asked = run("program", "--set run.device=cuda --set parallel.data=2");
  EXPECT_EQ(asked.code, 0) << asked.text;
  EXPECT_NE(asked.text.find(" by own"), std::string::npos);
  const auto open = run("program", "--set parallel.data=2");
  EXPECT_EQ(open.code, 0) << open.text;
  EXPECT_EQ(open.text.find(" by own"), std::string::npos);
}

}  // namespace
}  // namespace fourfold
