#include "compile/choose_kernels.h"

#include <gtest/gtest.h>

#include "unit/compile/one_rank.h"

namespace fourfold::compile {
namespace {

TEST(Kernels, a_workspace_is_as_large_as_the_hungriest_instruction) {
  const program::Program train = bundle_of({}).at(op::ProgramKind::train);
  const auto workspace = train.find_buffer("workspace");
  ASSERT_TRUE(workspace.has_value());
  EXPECT_EQ(train.buffer(*workspace).size_bytes, align_up(2 * 6 * 3 * 8 * 4));
}

}  // namespace
}  // namespace fourfold::compile
