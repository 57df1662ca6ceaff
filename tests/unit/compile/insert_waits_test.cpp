#include "compile/insert_waits.h"

#include <gtest/gtest.h>

#include "unit/compile/one_rank.h"
#include "verify/verify.h"

namespace fourfold::compile {
namespace {

TEST(Waits, the_math_stream_waits_for_its_feed_and_a_slot_is_refilled_only_after_its_last_reader) {
  RunSetup setup;
  setup.plan.micro_batch_size = 1;
  const program::Program train = bundle_of(setup).at("train");
  // Six micro-batches through two slots. The math waits for tokens and for labels of each. From the
  // third on a feed waits until the slot's last reader is done; the tokens are read last, so the
  // labels after them in the stream need no wait of their own.
  std::size_t math_waits = 0, feed_waits = 0;
  for (const auto& instruction : train.instructions)
    if (std::holds_alternative<program::Wait>(instruction.what))
      ++(instruction.stream.index() == 0 ? math_waits : feed_waits);
  EXPECT_EQ(math_waits, 12U);
  EXPECT_EQ(feed_waits, 4U);
}

TEST(Waits, programs_without_a_second_stream_have_none) {
  for (const char* name : {"init", "digest"}) EXPECT_EQ(bundle_of({}).at(name).num_events, 0U);
}

TEST(Waits, dropping_any_single_wait_is_a_race_that_the_verifier_sees) {
  RunSetup setup;
  setup.plan.micro_batch_size = 1;
  const program::Program train = bundle_of(setup).at("train");
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < train.instructions.size(); ++i) {
    if (!std::holds_alternative<program::Wait>(train.instructions[i].what)) continue;
    program::Program broken = train;
    broken.instructions.erase(broken.instructions.begin() + static_cast<std::ptrdiff_t>(i));
    for (program::Task& task : broken.tasks) {
      if (task.begin > i) --task.begin;
      if (task.end > i) --task.end;
    }
    EXPECT_FALSE(verify::verify(broken).empty()) << "wait at " << i;
    ++dropped;
  }
  EXPECT_EQ(dropped, 16U);
}

}  // namespace
}  // namespace fourfold::compile
