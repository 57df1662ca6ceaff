#include "compile/recompute.h"

#include <gtest/gtest.h>

#include "unit/compile/one_rank.h"
#include "verify/verify.h"

namespace fourfold::compile {
namespace {

TEST(Recompute, full_checkpointing_repeats_each_block_once_and_saves_memory) {
  RunSetup plain, full;
  full.plan.checkpointing.layers = 1;
  plain.gpt.num_layers = full.gpt.num_layers = 8;
  const auto without = bundle_of(plain).at(op::ProgramKind::train),
             with = bundle_of(full).at(op::ProgramKind::train);
  const std::size_t micros = 3, layers = 8;
  EXPECT_EQ(count_ops(without, "attention"), layers * micros);
  EXPECT_EQ(count_ops(with, "attention"), 2 * layers * micros);
  EXPECT_EQ(count_ops(with, "attention_gradient"), layers * micros);
  EXPECT_LT(with.transient_bytes, without.transient_bytes * 2 / 3);
  // Nothing is repeated that the backward pass does not read: the last product of a block is not.
  EXPECT_EQ(count_ops(with, "contract"), count_ops(without, "contract") + 3 * layers * micros);
}

TEST(Recompute, selective_checkpointing_repeats_what_is_cheap_and_no_product) {
  RunSetup plain, selective, full;
  selective.plan.checkpointing = {.layers = 1, .keeps_products = true};
  full.plan.checkpointing.layers = 1;
  for (RunSetup* setup : {&plain, &selective, &full}) setup->gpt.num_layers = 8;
  const auto without = bundle_of(plain).at(op::ProgramKind::train),
             some = bundle_of(selective).at(op::ProgramKind::train),
             all = bundle_of(full).at(op::ProgramKind::train);
  const std::size_t layers = 8, micros = 3;
  EXPECT_EQ(count_ops(some, "contract"), count_ops(without, "contract"));
  for (const auto name : {"attention", "gelu"})
    EXPECT_EQ(count_ops(some, name), 2 * layers * micros) << name;
  EXPECT_EQ(count_ops(some, "layer_norm"), count_ops(all, "layer_norm"));
  EXPECT_EQ(count_ops(some, "dropout"), count_ops(all, "dropout"));
  EXPECT_LT(some.transient_bytes, without.transient_bytes * 3 / 4);
  EXPECT_GT(some.transient_bytes, all.transient_bytes);
}

TEST(Recompute, selective_programs_pass_the_verifier) {
  for (const bool tied : {true, false}) {
    RunSetup setup;
    setup.gpt.tied_head = tied;
    setup.plan.checkpointing = {.layers = 1, .keeps_products = true};
    for (const auto& fault : verify::verify(bundle_of(setup)))
      ADD_FAILURE() << fault.rule << ": " << fault.message;
  }
}

TEST(Recompute, a_segment_of_all_blocks_repeats_as_much_as_full_checkpointing) {
  RunSetup full, whole;
  full.plan.checkpointing.layers = 1;
  whole.plan.checkpointing.layers = 3;
  EXPECT_EQ(count_ops(bundle_of(full).at(op::ProgramKind::train), "attention"),
            count_ops(bundle_of(whole).at(op::ProgramKind::train), "attention"));
}

}  // namespace
}  // namespace fourfold::compile
