#include <gtest/gtest.h>

#include <algorithm>

#include "compile/liveness.h"
#include "compile/persistent_region.h"
#include "compile/place_buffers.h"
#include "unit/compile/grid_setup.h"

namespace fourfold::compile {
namespace {

GridSetup setup_on(const plan::Grid& grid, std::int64_t blocks) {
  GridSetup setup;
  setup.plan.grid = grid;
  setup.plan.checkpointing.layers = blocks;
  return setup;
}

TEST(LivePeak, its_buffers_are_alive_there_and_fill_the_bytes_that_it_says) {
  for (const std::int64_t blocks : {0, 1}) {
    const program::Bundle bundle = setup_on({2, 2, 2, 1}, blocks).bundle();
    for (const program::Program& program : bundle.programs) {
      const LivePeak peak = live_peak(program);
      if (peak.buffers.empty()) continue;  // init has no transient memory
      const auto lives = live_intervals(program);
      std::int64_t bytes = 0;
      for (const program::BufferId id : peak.buffers) {
        bytes += align_up(program.buffer(id).size_bytes);
        EXPECT_TRUE(overlap(lives[id.index()], {{peak.instruction, peak.instruction}}))
            << program.buffer(id).name;
      }
      EXPECT_EQ(bytes, peak.bytes) << op::to_string(program.kind);
      EXPECT_LE(peak.bytes, program.transient_bytes) << op::to_string(program.kind);
      EXPECT_GT(peak.bytes, 0) << op::to_string(program.kind);
    }
  }
}

TEST(LivePeak, no_other_instruction_has_more_alive) {
  const program::Bundle bundle = setup_on({1, 2, 1, 2}, 1).bundle();
  const program::Program& train = bundle.at(op::ProgramKind::train);
  const LivePeak peak = live_peak(train);
  const auto lives = live_intervals(train);
  // Counted anew, without addresses that are taken over: at most a few buffers more at once.
  for (std::size_t i = 0; i < train.instructions.size(); ++i) {
    std::int64_t starting = 0, bytes = 0;
    for (std::size_t b = 0; b < train.buffers.size(); ++b)
      for (const Interval& life : lives[b]) {
        if (life.begin > i || life.end < i) continue;
        (life.begin == i ? starting : bytes) += align_up(train.buffers[b].size_bytes);
      }
    EXPECT_LE(bytes, peak.bytes) << i;
    if (i == peak.instruction) {
      EXPECT_GE(bytes + starting, peak.bytes);
    }
  }
}

}  // namespace
}  // namespace fourfold::compile
