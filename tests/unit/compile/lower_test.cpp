#include "compile/lower.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "unit/compile/one_rank.h"

namespace fourfold::compile {
namespace {

TEST(Lower, the_first_producer_of_a_sum_overwrites_and_all_others_add) {
  const RunSetup setup;
  const program::Program train = bundle_of(setup).at("train");
  std::map<std::size_t, std::vector<bool>> accumulates;  // by gradient buffer
  for (const auto& instruction : train.instructions) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr || !op::can_accumulate(compute->op) || program::is_update(compute->op))
      continue;
    for (const program::Slice& slice : compute->slices)
      if (train.buffer(slice.buffer).role == program::BufferRole::gradient &&
          !std::holds_alternative<op::SquaredNorm>(compute->op))
        accumulates[slice.buffer.index()].push_back(compute->op !=
                                                    op::with_accumulate(compute->op, false));
  }
  ASSERT_FALSE(accumulates.empty());
  for (const auto& [buffer, list] : accumulates) {
    EXPECT_FALSE(list.front()) << train.buffers[buffer].name;
    for (std::size_t i = 1; i < list.size(); ++i)
      EXPECT_TRUE(list[i]) << train.buffers[buffer].name;
  }
  // A tied table gets two contributions of every micro-batch: from the head and from the embedding.
  const auto wte = train.find_buffer("gradient/wte.weight");
  ASSERT_TRUE(wte.has_value());
  EXPECT_EQ(accumulates.at(wte->index()).size(), 6U);
}

}  // namespace
}  // namespace fourfold::compile
