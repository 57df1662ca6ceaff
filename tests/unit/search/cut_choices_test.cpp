#include "search/cut_choices.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace fourfold::search {
namespace {

Mesh mesh_of(std::vector<std::int64_t> sizes) {
  Mesh mesh;
  for (const std::int64_t size : sizes)
    mesh.axes.push_back({std::string(1, static_cast<char>('p' + mesh.axes.size())), size});
  return mesh;
}

/// Section 4.3.3 of the paper counts 2 * factors(256 / 4) + 2 = 16 layouts of a tensor of 256 x 256
/// on 4 devices: a dim and a stride, whole, or terms of a sum. All of them have a notation here; a
/// search takes the greatest strides alone, as the paper's does.
TEST(CutChoices, of_256_by_256_on_4_devices_are_the_papers_16) {
  const Mesh mesh = mesh_of({4});
  const Shape shape{256, 256};
  std::set<std::vector<std::int64_t>> layouts;  // by the owner of each row and of each column
  for (std::size_t dim = 0; dim < shape.rank(); ++dim)
    for (std::int64_t stride = 1; stride <= shape[dim]; ++stride) {
      const op::Cuts cuts = {{AxisId(0), stride}};
      if (4 * op::local_size(shape[dim], cuts, mesh) != shape[dim]) continue;
      std::vector<std::int64_t> owners(2 * 256, -1);
      for (std::int64_t i = 0; i < shape[dim]; ++i)
        owners[dim * 256 + static_cast<std::size_t>(i)] = i / stride % 4;
      layouts.insert(owners);
    }
  EXPECT_EQ(layouts.size(), 2U * 7);
  op::Sharding whole, terms;
  terms.partial = {{AxisId(0), Reduction::sum}};
  EXPECT_NE(whole, terms);
  EXPECT_EQ(layouts.size() + 2, 16U);

  std::vector<op::Sharding> searched;
  const std::vector<AxisId> axes = {AxisId(0)};
  for_each_cuts(mesh, axes, {}, dims_as_factors(shape), "", [&](const plan::FactorAxes& cuts) {
    searched.push_back(sharding_of(cuts, shape, mesh));
  });
  ASSERT_EQ(searched.size(), 3U) << "whole, rows, columns";
  EXPECT_TRUE(searched[0].replicated());
  for (const std::size_t i : {1, 2})
    EXPECT_EQ(op::local_shape(shape, searched[i], mesh).elements(), 64 * 256);
}

TEST(CutChoices, are_every_way_of_several_axes_that_divide) {
  const Mesh mesh = mesh_of({2, 3});
  const std::vector<AxisId> axes = {AxisId(0), AxisId(1)};
  std::vector<plan::FactorAxes> found;
  for_each_cuts(mesh, axes, {}, {{'a', 6}, {'b', 4}}, "",
                [&](const plan::FactorAxes& cuts) { found.push_back(cuts); });
  // p cuts a, b or nothing; q cuts a or nothing.
  EXPECT_EQ(found.size(), 6U);
  EXPECT_EQ(found.front(), plan::FactorAxes{});
  EXPECT_EQ(std::ranges::count(found, plan::FactorAxes{{'a', {AxisId(0), AxisId(1)}}}), 1);
  EXPECT_EQ(std::ranges::count(found, plan::FactorAxes{{'a', {AxisId(1)}}, {'b', {AxisId(0)}}}), 1);

  found.clear();
  for_each_cuts(mesh, axes, {{AxisId(0), 'b'}, {AxisId(1), std::nullopt}}, {{'a', 6}, {'b', 4}}, "",
                [&](const plan::FactorAxes& cuts) { found.push_back(cuts); });
  EXPECT_EQ(found, (std::vector<plan::FactorAxes>{{{'b', {AxisId(0)}}}}));
}

TEST(CutChoices, of_padded_dims_state_strides_where_ranks_do_not_divide) {
  const Mesh mesh = mesh_of({2, 4});
  const Shape shape{50'257, 4};
  const std::vector<AxisId> axes = {AxisId(0), AxisId(1)};
  std::vector<op::Sharding> found;
  for_each_cuts(mesh, axes, {}, dims_as_factors(shape), "a", [&](const plan::FactorAxes& cuts) {
    found.push_back(sharding_of(cuts, shape, mesh));
  });
  EXPECT_EQ(found.size(), 8U) << "each axis cuts a, b or nothing; both cannot cut b";
  const std::vector<op::Cuts> both = {{{AxisId(0), 25'132}, {AxisId(1), 6'283}}, {}};
  EXPECT_EQ(std::ranges::count(found, both, &op::Sharding::dims), 1);
  for (const op::Sharding& one : found)
    EXPECT_EQ(has_padding(shape, one, mesh), !one.dims[0].empty());
}

}  // namespace
}  // namespace fourfold::search
