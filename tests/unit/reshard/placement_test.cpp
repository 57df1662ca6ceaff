#include "reshard/placement.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace fourfold::reshard {
namespace {

std::string boxes(const Placement& placement) {
  std::string text;
  for (const Box& box : placement.boxes) text += to_text(box);
  return text;
}

Placement place(const Shape& shape, std::string_view spec, MeshShape mesh) {
  return placement_of(shape, spec, mesh, {Rank(3), static_cast<std::size_t>(mesh.ranks())});
}

// Zhuang et al. 2023, Figure 2: a 4 x 4 matrix and meshes of 2 x 2.
TEST(Placement, of_a_spec_is_that_of_the_paper) {
  EXPECT_EQ(boxes(place({4, 4}, "S01R", {2, 2})), "[0:1, 0:4][1:2, 0:4][2:3, 0:4][3:4, 0:4]");
  EXPECT_EQ(boxes(place({4, 4}, "S0R", {2, 2})), "[0:2, 0:4][0:2, 0:4][2:4, 0:4][2:4, 0:4]");
  EXPECT_EQ(boxes(place({4, 4}, "S0S1", {2, 2})), "[0:2, 0:2][0:2, 2:4][2:4, 0:2][2:4, 2:4]");
  EXPECT_EQ(boxes(place({4, 4}, "RS^{10}", {2, 2})), "[0:4, 0:1][0:4, 2:3][0:4, 1:2][0:4, 3:4]");
  EXPECT_EQ(place({4, 4}, "S^0R", {2, 2}), place({4, 4}, "S0R", {2, 2}));
}

TEST(Placement, has_shorter_and_empty_tiles_at_the_end) {
  EXPECT_EQ(boxes(place({7}, "S0", {3, 1})), "[0:3][3:6][6:7]");
  EXPECT_EQ(boxes(place({5}, "S0", {4, 1})), "[0:2][2:4][4:5][5:5]");
  // Tiles of ceil(10 / 8), whatever the rows of the mesh.
  EXPECT_EQ(boxes(place({10}, "S01", {2, 4})), "[0:2][2:4][4:6][6:8][8:10][10:10][10:10][10:10]");
}

TEST(Placement, of_a_sharding_has_any_number_of_axes_and_ends_with_the_tile_that_is_cut) {
  const Mesh mesh{"m", {{"data", 2}, {"z", 2}, {"x", 3}}, {Rank(0), 12}};
  const op::Sharding sharding{
      MeshId(), {{{AxisId(0), std::nullopt}, {AxisId(2), std::nullopt}}, {{AxisId(1), {}}}}, {}};
  const Placement placement = placement_of({10, 5}, sharding, mesh);
  // Rows: halves of 5, each in thirds of 2, 2 and 1; columns: 3 and 2.
  EXPECT_EQ(to_text(placement.boxes[0]), "[0:2, 0:3]");
  EXPECT_EQ(to_text(placement.boxes[2]), "[4:5, 0:3]");
  EXPECT_EQ(to_text(placement.boxes[5]), "[4:5, 3:5]");
  EXPECT_EQ(to_text(placement.boxes[6]), "[5:7, 0:3]");
  const op::Sharding summed{MeshId(), {}, {{AxisId(0), Reduction::sum}}};
  EXPECT_THROW(placement_of({10, 5}, summed, mesh), InternalError);
  const op::Sharding cyclic{MeshId(), {{{AxisId(0), 1}}}, {}};
  EXPECT_THROW(placement_of({10, 5}, cyclic, mesh), InternalError);
}

void expect_error(std::string_view spec, const std::string& words) {
  try {
    place({4, 4}, spec, {2, 2});
    FAIL() << spec;
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Placement, of_a_bad_spec_is_refused_with_what_is_wrong) {
  expect_error("S0RR", "it has 3 dims, and the tensor [4, 4] has 2");
  expect_error("S0S0", "dim 0 of the mesh cuts twice");
  expect_error("SR", "dim 0 is cut by no dim of the mesh");
  expect_error("R0R", "no S stands before dim 0 of the mesh");
  expect_error("S2R", "'2' is none of S, R, 0 and 1");
  expect_error("", "it has 0 dims");
}

TEST(MeshShape, is_rows_and_columns) {
  EXPECT_EQ(parse_mesh_shape("2x4"), (MeshShape{2, 4}));
  for (const char* bad : {"", "2", "x4", "2x", "2x0", "-1x2", "2x4x1", "2097152x1", "2x4 "})
    EXPECT_THROW(parse_mesh_shape(bad), UserError) << bad;
}

}  // namespace
}  // namespace fourfold::reshard
