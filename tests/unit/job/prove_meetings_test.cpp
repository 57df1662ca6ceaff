// What keeps a job whose ranks would not meet from being started.
#include "job/prove_meetings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "job/settle.h"

namespace fourfold::job {
namespace {

Job pipeline() {
  return prepare(settle(
      config::load(std::span<const std::string>(),
                   std::vector<std::string>{"model.num_layers=2", "model.num_attention_heads=2",
                                            "model.hidden_size=16", "model.vocab_size=32",
                                            "data.format=synthetic", "data.seq_length=8",
                                            "train.global_batch_size=4", "train.micro_batch_size=1",
                                            "parallel.pipeline.stages=2", "kernels=reference"}),
      {}));
}

program::Program& train_of(program::Bundle& bundle) {
  return *std::ranges::find(bundle.programs, op::ProgramKind::train, &program::Program::kind);
}

TEST(ProveMeetings, nothing_is_said_of_a_job_that_ends) {
  EXPECT_NO_THROW(prove_meetings(pipeline()));
}

/// What is said of a pipeline whose second stage has been changed.
template <class Change>
std::string refusal_of(Change&& change) {
  Job job = pipeline();
  change(train_of(job.programs.classes[1]));
  try {
    prove_meetings(job);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
    return error.what();
  }
  return "";
}

TEST(ProveMeetings, a_stage_that_takes_what_comes_first_last_is_refused) {
  const std::string text = refusal_of([](program::Program& program) {
    // The first message changes places with the last one of its stream.
    auto& list = program.instructions;
    const auto is_recv = [](const program::Instruction& instruction) {
      return std::holds_alternative<program::Recv>(instruction.what);
    };
    const auto first = std::ranges::find_if(list, is_recv);
    auto last = first;
    for (auto it = first; it != list.end(); ++it)
      if (is_recv(*it) && it->stream == first->stream &&
          std::get<program::Recv>(it->what).tag != std::get<program::Recv>(first->what).tag)
        last = it;
    ASSERT_NE(first, last);
    std::swap(first->what, last->what);
  });
  EXPECT_NE(text.find("would not come to the end of a step"), std::string::npos) << text;
  EXPECT_NE(text.find("parallel.pipeline"), std::string::npos) << text;
}

TEST(ProveMeetings, a_stage_that_does_not_send_is_refused) {
  const std::string text = refusal_of([](program::Program& program) {
    for (program::Instruction& instruction : program.instructions)
      if (auto* send = std::get_if<program::Send>(&instruction.what)) {
        send->tag += 1000;
        return;
      }
  });
  EXPECT_NE(text.find("would not come to the end of a step"), std::string::npos) << text;
}

}  // namespace
}  // namespace fourfold::job
