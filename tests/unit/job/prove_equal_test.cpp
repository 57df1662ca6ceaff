// What keeps a job that computes anything but its serial program from being started.
#include "job/prove_equal.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "job/settle.h"
#include "job/specify.h"

namespace fourfold::job {
namespace {

Job job_of(std::vector<std::string> more) {
  std::vector<std::string> sets = {
      "model.num_layers=2",        "model.num_attention_heads=2", "model.hidden_size=16",
      "model.vocab_size=32",       "data.format=synthetic",       "data.seq_length=8",
      "train.global_batch_size=4", "train.micro_batch_size=1",    "kernels=reference"};
  sets.insert(sets.end(), more.begin(), more.end());
  return prepare(settle(config::load(std::span<const std::string>(), sets), {}));
}

TEST(ProveEqual, nothing_is_said_of_jobs_that_compute_what_one_rank_does) {
  EXPECT_NO_THROW(prove_equal(job_of({"parallel.pipeline.stages=2"})));
  EXPECT_NO_THROW(prove_equal(job_of({"parallel.tensor={x: 2}", "parallel.data=2"})));
}

TEST(ProveEqual, another_attribute_in_one_stage_is_refused_with_the_tensor) {
  Job job = job_of({"parallel.pipeline.stages=2"});
  bool is_changed = false;
  for (program::Program& program : job.programs.classes[1].programs)
    for (program::Instruction& instruction : program.instructions) {
      auto* compute = std::get_if<program::Compute>(&instruction.what);
      if (compute == nullptr) continue;
      if (auto* list = compute->op.get_if<op::AdamWList>()) {
        list->beta1 = 0.5;
        is_changed = true;
      } else if (auto* one = compute->op.get_if<op::AdamW>()) {
        one->beta1 = 0.5;
        is_changed = true;
      }
    }
  ASSERT_TRUE(is_changed);
  EXPECT_NO_THROW(prove_equal(job_of({})));
  try {
    prove_equal(job);
    FAIL() << "a job with another beta1 in its second stage may start";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ExitCode::internal);
    EXPECT_NE(text.find("would not compute what one rank does"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1: train, step 1"), std::string::npos) << text;
  }
}

TEST(ProveEqual, jobs_that_take_long_or_have_many_ranks_are_left_out_and_it_is_said_why) {
  const Job small = job_of({"parallel.data=2"});
  const program::Job specification = specify(small.settled);
  EXPECT_EQ(reason_to_leave_out(small.programs, specification, 2), std::nullopt);
  const auto reason = reason_to_leave_out(small.programs, specification, 1e-6);
  ASSERT_TRUE(reason.has_value());
  EXPECT_NE(reason->find("operations, more than"), std::string::npos) << *reason;
  program::Job many = small.programs;
  many.ranks.resize(33);
  EXPECT_EQ(reason_to_leave_out(many), "33 ranks, more than 32");
}

}  // namespace
}  // namespace fourfold::job
