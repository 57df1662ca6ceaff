// Shardings as text, and the local shapes they give.
#include "op/sharding.h"

#include <gtest/gtest.h>

namespace fourfold::op::sharding_test {
namespace {

const Mesh mesh{"main", {{"data", 2}, {"z", 3}, {"x", 1}}, {}};

TEST(Sharding, prints_cuts_strides_and_partial_axes) {
  Sharding sharding{MeshId(0), {{{AxisId(0), {}}, {AxisId(1), {}}}, {}, {{AxisId(2), 4}}}, {}};
  sharding.partial = {{AxisId(0), Reduction::sum}, {AxisId(1), Reduction::max}};
  EXPECT_EQ(to_string({12, 64, 128}, sharding, mesh),
            "[12 (data,z), 64, 128 (x:4)] partial sum(data) partial max(z)");
}

TEST(Sharding, prints_scalars_and_uncut_shapes) {
  EXPECT_EQ(to_string({}, {}, mesh), "[]");
  EXPECT_EQ(to_string({3}, {}, mesh), "[3]");
}

TEST(Sharding, reads_back_what_it_prints) {
  for (const std::string text : {"[]", "[3]", "[12 (data,z), 64, 128 (x:4)]", "[0, 5 (z)]"}) {
    const auto read = parse_sharded_shape(text, MeshId(0), mesh);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(to_string(read->shape, read->sharding, mesh), text);
  }
}

TEST(Sharding, reading_sets_the_mesh_and_leaves_uncut_shapes_without_dims) {
  const auto read = parse_sharded_shape("[4, 5]", MeshId(3), mesh);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->sharding, (Sharding{MeshId(3), {}, {}}));
  EXPECT_EQ(read->shape, (Shape{4, 5}));
}

TEST(Sharding, refuses_what_it_does_not_understand) {
  for (const std::string text : {"", "[", "4", "[4", "4]", "[a]", "[-4]", "[4 (w)]", "[4 (z]",
                                 "[4 z]", "[4 (z:)]", "[4 (z:a)]", "[4 (z) 5]"})
    EXPECT_FALSE(parse_sharded_shape(text, MeshId(0), mesh)) << text;
}

TEST(Sharding, the_local_shape_is_divided_by_every_cut) {
  const Sharding sharding{MeshId(0), {{{AxisId(0), {}}, {AxisId(1), {}}}, {}}, {}};
  EXPECT_EQ(local_shape({12, 64}, sharding, mesh), (Shape{2, 64}));
  EXPECT_EQ(local_shape({12, 64}, {}, mesh), (Shape{12, 64}));
  EXPECT_EQ(local_shape({4, 64}, sharding, mesh), (Shape{1, 64}))
      << "two of six ranks hold padding";
}

TEST(Sharding, ranks_that_cut_a_dim_with_stated_strides_hold_every_index_once) {
  for (const std::int64_t size : {1, 5, 6, 7, 10, 12, 65}) {
    const std::int64_t block = (size + 5) / 6;  // of one of six ranks
    const std::vector<Cut> cuts = {{AxisId(0), 3 * block}, {AxisId(1), block}};
    EXPECT_EQ(local_size(size, cuts, mesh), block);
    std::int64_t next = 0;
    for (const std::int64_t data : {0, 1})
      for (const std::int64_t z : {0, 1, 2}) {
        EXPECT_EQ(first_index(size, cuts, mesh, std::vector<std::int64_t>{data, z, 0}), next);
        next += block;
      }
    EXPECT_GE(next, size);
  }
}

TEST(Sharding, is_replicated_without_cuts_and_partial_axes) {
  EXPECT_TRUE(Sharding{}.replicated());
  EXPECT_TRUE((Sharding{MeshId(0), {{}, {}}, {}}).replicated());
  EXPECT_FALSE((Sharding{MeshId(0), {{}, {{AxisId(0), {}}}}, {}}).replicated());
  const Sharding partial{MeshId(0), {}, {{AxisId(1), Reduction::sum}}};
  EXPECT_FALSE(partial.replicated());
  EXPECT_NE(partial.partial_on(AxisId(1)), nullptr);
  EXPECT_EQ(partial.partial_on(AxisId(0)), nullptr);
}

}  // namespace
}  // namespace fourfold::op::sharding_test
