#include <gtest/gtest.h>

#include "plan/pin_spec.h"
#include "unit/compile/grid_setup.h"

namespace fourfold::compile {
namespace {

TEST(PinnedState, what_updates_a_gain_or_a_bias_that_is_pinned_to_an_axis_is_cut_as_it_is) {
  for (const std::string name : {"blocks.0.ln1.gain", "blocks.0.mlp.down.bias"}) {
    GridSetup setup;
    setup.set_grid({.z = 2});
    setup.plan.pins = {{name, plan::parse_pinned("[32 (z)]").value()}};
    const program::Program train = setup.train();
    const auto pinned = train.find_buffer(name);
    ASSERT_TRUE(pinned) << name;
    const op::Sharding& sharding = train.buffer(*pinned).sharding;
    EXPECT_FALSE(sharding.replicated()) << name;
    std::size_t moments = 0;
    for (const program::Buffer& buffer : train.buffers)
      if (buffer.region == program::Region::persistent && buffer.name.ends_with("/" + name)) {
        EXPECT_EQ(buffer.sharding, sharding) << buffer.name;
        ++moments;
      }
    EXPECT_EQ(moments, 2U) << name;
  }
}

}  // namespace
}  // namespace fourfold::compile
