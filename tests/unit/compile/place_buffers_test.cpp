#include "compile/place_buffers.h"

#include <gtest/gtest.h>

#include "compile/liveness.h"
#include "unit/compile/one_rank.h"

namespace fourfold::compile {
namespace {

TEST(Placement, live_buffers_never_share_bytes_and_the_region_is_near_the_lower_bound) {
  RunSetup setup;
  setup.gpt.num_layers = 6;
  for (const program::Program& program : bundle_of(setup).programs) {
    const auto lives = live_intervals(program);
    for (std::size_t a = 0; a < program.buffers.size(); ++a)
      for (std::size_t b = a + 1; b < program.buffers.size(); ++b) {
        const program::Buffer &p = program.buffers[a], &q = program.buffers[b];
        if (p.region != program::Region::transient || q.region != program::Region::transient)
          continue;
        const bool meet = p.offset_bytes < q.offset_bytes + q.size_bytes &&
                          q.offset_bytes < p.offset_bytes + p.size_bytes;
        if (!meet || !overlap(lives[a], lives[b])) continue;
        // Only a takeover: same address, and one ends where the other begins.
        EXPECT_EQ(p.offset_bytes, q.offset_bytes) << p.name << " and " << q.name;
      }
    EXPECT_GE(program.transient_bytes, live_bytes_bound(program)) << program.name;
    EXPECT_LE(program.transient_bytes, live_bytes_bound(program) * 5 / 4) << program.name;
  }
}

TEST(Placement, elementwise_outputs_take_over_the_memory_of_dying_reads) {
  const program::Program evaluate = bundle_of({}).at("evaluate");
  const auto up = evaluate.find_buffer("blocks.0.mlp.up.biased");
  const auto gelu = evaluate.find_buffer("blocks.0.mlp.gelu");
  ASSERT_TRUE(up && gelu);
  EXPECT_EQ(evaluate.buffer(*up).offset_bytes, evaluate.buffer(*gelu).offset_bytes);
  const program::Program train = bundle_of({}).at("train");  // here the backward pass reads it
  EXPECT_NE(train.buffer(*train.find_buffer("blocks.0.mlp.up.biased")).offset_bytes,
            train.buffer(*train.find_buffer("blocks.0.mlp.gelu")).offset_bytes);
}

}  // namespace
}  // namespace fourfold::compile
