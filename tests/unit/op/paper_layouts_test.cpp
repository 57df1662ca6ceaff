// The layouts that the papers work out, element by element: ATP's Figs 4, 5, 9 and Table 1 (Cheng
// et al. 2023), the resharding paper's Fig 2 and the unit tasks of its Table 2 (Zhuang et al.
// 2023).
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/format.h"
#include "op/rule.h"
#include "op/table.h"

namespace fourfold::op {
namespace {

using Elements = std::vector<std::int64_t>;

constexpr AxisId first_axis(0), second_axis(1);

/// DeviceMesh(d1, d2): row-major, so that the groups of the second dim are consecutive ranks.
Mesh device_mesh(std::int64_t d1, std::int64_t d2, std::size_t first_rank = 0) {
  Mesh mesh{"devices", {{"d1", d1}, {"d2", d2}}, {}};
  for (std::int64_t i = 0; i < d1 * d2; ++i)
    mesh.ranks.push_back(Rank(first_rank + static_cast<std::size_t>(i)));
  return mesh;
}

/// ATP binds a placement to each dim of the mesh, we bind cuts to dims of the tensor: [S(1), S(0)]
/// is [{d2}, {d1}].
struct Placement {
  enum { replicate, shard, partial } kind = replicate;
  std::size_t dim = 0;
};
constexpr Placement r{}, sum{Placement::partial, 0};
constexpr Placement s(std::size_t dim) {
  return {Placement::shard, dim};
}

Sharding sharding_of(const std::vector<Placement>& spec, std::size_t dims = 2) {
  Sharding sharding;
  for (std::size_t axis = 0; axis < spec.size(); ++axis) {
    if (spec[axis].kind == Placement::partial)
      sharding.partial.push_back({AxisId(axis), Reduction::sum});
    if (spec[axis].kind != Placement::shard) continue;
    sharding.dims.resize(dims);
    sharding.dims[spec[axis].dim].push_back({AxisId(axis), std::nullopt});
  }
  return sharding;
}

/// Row-major numbers of the elements that a rank holds, in the order in which it holds them.
Elements elements_on(const Shape& global, const Sharding& sharding, const Mesh& mesh,
                     std::size_t position) {
  const auto coordinates = mesh.coordinates(position);
  const Shape local = local_shape(global, sharding, mesh);
  const auto first = [&](std::size_t dim) {
    return dim < sharding.dims.size()
               ? first_index(global[dim], sharding.dims[dim], mesh, coordinates)
               : 0;
  };
  Elements list;
  for (std::int64_t row = 0; row < local[0]; ++row)
    for (std::int64_t column = 0; column < local[1]; ++column)
      list.push_back((first(0) + row) * global[1] + first(1) + column);
  return list;
}

/// "Element i lives at coordinate (i / stride) mod n of the axis", for every cut of its dim.
bool lives_on(const Shape& global, const Sharding& sharding, const Mesh& mesh, std::int64_t element,
              std::size_t position) {
  const auto coordinates = mesh.coordinates(position);
  const std::int64_t index[] = {element / global[1], element % global[1]};
  for (std::size_t dim = 0; dim < sharding.dims.size(); ++dim) {
    std::int64_t stride = global[dim];
    for (const Cut& cut : sharding.dims[dim]) {
      const std::int64_t parts = mesh.axes[cut.axis.index()].size;
      stride = (stride + parts - 1) / parts;
      if (index[dim] / stride % parts != coordinates[cut.axis.index()]) return false;
    }
  }
  return true;
}

void expect_elements(const Shape& global, const Sharding& sharding, const Mesh& mesh,
                     const std::vector<Elements>& by_rank) {
  ASSERT_EQ(by_rank.size(), mesh.ranks.size());
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    EXPECT_EQ(elements_on(global, sharding, mesh, i), by_rank[i])
        << to_string(global, sharding, mesh) << " on rank " << mesh.ranks[i].index();
    const std::set<std::int64_t> here(by_rank[i].begin(), by_rank[i].end());
    for (std::int64_t e = 0; e < global.elements(); ++e)
      EXPECT_EQ(lives_on(global, sharding, mesh, e, i), here.contains(e))
          << "element " << e << " on rank " << mesh.ranks[i].index();
  }
}

// --- ATP, sections 3.1 and 3.2

TEST(AtpFigure4, cuts_columns_at_the_first_level_of_the_mesh_and_rows_at_the_second) {
  // The figure counts from 1; elements here count from 0.
  const Mesh mesh = device_mesh(2, 2);
  EXPECT_EQ(local_shape({2, 4}, sharding_of({s(1), s(0)}), mesh), (Shape{1, 2}));
  expect_elements({2, 4}, sharding_of({s(1), s(0)}), mesh, {{0, 1}, {4, 5}, {2, 3}, {6, 7}});
  EXPECT_EQ(local_shape({2, 4}, sharding_of({r, s(0)}), mesh), (Shape{1, 4}));
  expect_elements({2, 4}, sharding_of({r, s(0)}), mesh,
                  {{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}, {4, 5, 6, 7}});
  expect_elements({2, 4}, sharding_of({s(0), s(1)}), mesh, {{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  expect_elements({2, 4}, sharding_of({s(1), s(1)}), mesh, {{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

/// The state of Y = X W by the rule of contract.
Sharding product(const Sharding& x, const Sharding& w) {
  const std::vector<Shape> shapes = {{8, 24}, {24, 48}};
  const std::vector<Sharding> reads = {x, w}, outputs(1);
  const auto result = propagate(factors(Contract{}, shapes), reads, outputs, device_mesh(2, 2));
  EXPECT_EQ(result.problem, "");
  return result.problem.empty() ? result.outputs[0] : Sharding{};
}

TEST(AtpTable1, follows_from_the_rule_of_contract) {
  struct Row {
    std::string name;
    Placement input, weight, output;
  };
  for (const Row& row :
       {Row{"DP", s(0), r, s(0)}, Row{"Column TP", r, s(1), s(1)}, Row{"Row TP", s(1), s(0), sum}})
    EXPECT_EQ(product(sharding_of({row.input}), sharding_of({row.weight})),
              sharding_of({row.output}))
        << row.name;
}

TEST(AtpTable1, of_data_and_tensor_parallelism_together_is_the_two_rows_side_by_side) {
  EXPECT_EQ(product(sharding_of({s(0), r}), sharding_of({r, s(1)})), sharding_of({s(0), s(1)}));
  EXPECT_EQ(product(sharding_of({s(0), s(1)}), sharding_of({r, s(0)})), sharding_of({s(0), sum}));
}

/// Integers, so that sums are exact.
std::int64_t value(std::int64_t element, std::int64_t seed) {
  return (element * 7 + seed) % 11 - 5;
}

struct Linear2D {
  std::vector<Placement> input, weight, product, output;
};
const Linear2D column_first{{r, s(1)}, {s(1), s(0)}, {s(1), sum}, {s(1), r}};
const Linear2D row_first{{s(1), r}, {s(0), s(1)}, {sum, s(1)}, {r, s(1)}};

/// Multiplies what each rank holds, adds up along the partial axis, and compares every element of
/// Y = X W with the product of the whole matrices.
void expect_product(const Linear2D& linear, const Mesh& mesh) {
  const Shape x_shape = {3, 24}, w_shape = {24, 48}, y_shape = {3, 48};
  const Sharding x = sharding_of(linear.input), w = sharding_of(linear.weight),
                 y = sharding_of(linear.product);
  EXPECT_EQ(product(x, w), y);
  std::vector<std::map<std::int64_t, std::int64_t>> terms(mesh.ranks.size());
  for (std::size_t rank = 0; rank < mesh.ranks.size(); ++rank) {
    for (const std::int64_t a : elements_on(x_shape, x, mesh, rank))
      for (const std::int64_t b : elements_on(w_shape, w, mesh, rank))
        if (a % 24 == b / 48) terms[rank][a / 24 * 48 + b % 48] += value(a, 1) * value(b, 2);
    const Elements held = elements_on(y_shape, y, mesh, rank);
    EXPECT_EQ(terms[rank].size(), held.size()) << "a rank computes what it holds of Y, no more";
    for (const std::int64_t e : held) EXPECT_TRUE(terms[rank].contains(e));
  }
  const std::size_t reduced = y.partial[0].axis.index();
  for (std::size_t rank = 0; rank < mesh.ranks.size(); ++rank)
    for (const std::int64_t e : elements_on(y_shape, sharding_of(linear.output), mesh, rank)) {
      std::int64_t total = 0, expected = 0;
      for (std::size_t other = 0; other < mesh.ranks.size(); ++other)
        if (mesh.coordinates(other)[1 - reduced] == mesh.coordinates(rank)[1 - reduced])
          total += terms[other].at(e);
      for (std::int64_t k = 0; k < 24; ++k)
        expected += value(e / 48 * 24 + k, 1) * value(k * 48 + e % 48, 2);
      ASSERT_EQ(total, expected) << "element " << e << " on rank " << rank;
    }
}

TEST(AtpFigure5, both_linears_give_the_product_on_every_mesh) {
  for (const auto& [d1, d2] :
       {std::pair{8, 1}, {4, 2}, {2, 4}, {1, 8}, {2, 2}, {2, 3}, {3, 2}, {3, 4}}) {
    SCOPED_TRACE(format("DeviceMesh({}, {})", d1, d2));
    expect_product(column_first, device_mesh(d1, d2));
    expect_product(row_first, device_mesh(d1, d2));
  }
}

TEST(AtpSection32, every_rank_does_the_same_work_and_sends_its_part_of_the_output) {
  for (const auto& [d1, d2] : {std::pair{8, 1}, {4, 2}, {2, 4}, {1, 8}}) {
    const Mesh mesh = device_mesh(d1, d2);
    for (const bool columns : {true, false}) {
      const Linear2D& linear = columns ? column_first : row_first;
      const std::vector<Shape> all = {local_shape({16, 64}, sharding_of(linear.input), mesh),
                                      local_shape({64, 256}, sharding_of(linear.weight), mesh),
                                      local_shape({16, 256}, sharding_of(linear.output), mesh)};
      EXPECT_EQ(flops(Contract{}, all), 2.0 * 16 * 64 * 256 / 8);
      EXPECT_EQ(all[2], (Shape{16, 256 / (columns ? d1 : d2)})) << "what is all-reduced";
    }
  }
}

TEST(AtpFigure9, a_linear_of_256_on_2x2_reads_a_shard_of_128) {
  const Mesh mesh = device_mesh(2, 2);
  EXPECT_EQ(local_shape({4, 512, 256}, sharding_of({r, s(2)}, 3), mesh), (Shape{4, 512, 128}));
  EXPECT_EQ(local_shape({256, 1024}, sharding_of({s(1), s(0)}), mesh), (Shape{128, 512}));
}

TEST(AtpFigure6, a_column_first_linear_feeds_a_row_first_one_without_conversion) {
  EXPECT_EQ(sharding_of(column_first.output), sharding_of(row_first.input));
  EXPECT_EQ(sharding_of(row_first.output), sharding_of(column_first.input));
}

TEST(AtpFigure6, gradients_of_inputs_are_summed_over_the_other_dim_of_the_mesh) {
  const std::vector<Shape> backward = {{8, 48}, {24, 48}}, weight = {{8, 24}, {8, 48}};
  for (const Linear2D& linear : {column_first, row_first}) {
    const Sharding x = sharding_of(linear.input), w = sharding_of(linear.weight),
                   dy = sharding_of(linear.output);
    const std::vector<Sharding> outputs(1);
    const auto dx = propagate(factors(Contract{.transpose_b = true}, backward),
                              std::vector<Sharding>{dy, w}, outputs, device_mesh(2, 2));
    ASSERT_EQ(dx.problem, "");
    const AxisId forward = sharding_of(linear.product).partial[0].axis;
    ASSERT_EQ(dx.outputs[0].partial.size(), 1U);
    EXPECT_EQ(dx.outputs[0].partial[0].axis, forward == first_axis ? second_axis : first_axis);
    EXPECT_EQ(dx.outputs[0].dims, x.dims);
    // The weight's gradient needs no sum: no axis of this mesh cuts the batch.
    const auto dw = propagate(factors(Contract{.transpose_a = true}, weight),
                              std::vector<Sharding>{x, dy}, outputs, device_mesh(2, 2));
    ASSERT_EQ(dw.problem, "");
    EXPECT_EQ(dw.outputs[0], w);
  }
}

// --- resharding between meshes, section 2.2

/// "S01 R": one word per dim of the tensor, its digits the axes of the mesh that cut it.
Sharding alpa_spec(const std::vector<std::string>& words) {
  Sharding sharding;
  for (const std::string& word : words) {
    auto& cuts = sharding.dims.emplace_back();
    for (const char digit : word.substr(1))
      cuts.push_back({digit == '0' ? first_axis : second_axis, std::nullopt});
  }
  return sharding;
}

using Ranks = std::set<std::size_t>;

/// First index and past-the-end index of each dim.
using Region = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// The unique slices of a tensor on a mesh, each with the ranks that hold it.
std::map<Region, Ranks> slices(const Shape& shape, const Sharding& sharding, const Mesh& mesh) {
  std::map<Region, Ranks> result;
  for (std::size_t i = 0; i < mesh.ranks.size(); ++i) {
    Region region;
    for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
      const auto first = first_index(shape[dim], sharding.dims[dim], mesh, mesh.coordinates(i));
      region.emplace_back(first, first + local_shape(shape, sharding, mesh)[dim]);
    }
    result[region].insert(mesh.ranks[i].index());
  }
  return result;
}

struct UnitTask {
  Region region;
  Ranks from, to;
  bool operator==(const UnitTask&) const = default;
};

/// Intersections of source and destination slices, with the ranks that hold and want them.
std::vector<UnitTask> unit_tasks(const Shape& shape, const Sharding& from, const Mesh& source,
                                 const Sharding& to, const Mesh& destination) {
  std::vector<UnitTask> tasks;
  for (const auto& [held, holders] : slices(shape, from, source))
    for (const auto& [wanted, receivers] : slices(shape, to, destination)) {
      Region both;
      bool is_empty = false;
      for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
        both.emplace_back(std::max(held[dim].first, wanted[dim].first),
                          std::min(held[dim].second, wanted[dim].second));
        is_empty = is_empty || both.back().first >= both.back().second;
      }
      if (!is_empty) tasks.push_back({both, holders, receivers});
    }
  return tasks;
}

const Mesh mesh_a = device_mesh(2, 2), mesh_b = device_mesh(2, 2, 4);
const Sharding figure2_first = alpa_spec({"S01", "R"}), figure2_second = alpa_spec({"S0", "R"}),
               figure2_third = alpa_spec({"S0", "S1"});

TEST(ReshardingFigure2, gives_each_device_the_elements_of_the_figure) {
  const Shape matrix = {4, 4};
  expect_elements(matrix, figure2_first, mesh_a,
                  {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}});
  const Elements top = {0, 1, 2, 3, 4, 5, 6, 7}, bottom = {8, 9, 10, 11, 12, 13, 14, 15};
  expect_elements(matrix, figure2_second, mesh_b, {top, top, bottom, bottom});
  expect_elements(matrix, figure2_third, mesh_a,
                  {{0, 1, 4, 5}, {2, 3, 6, 7}, {8, 9, 12, 13}, {10, 11, 14, 15}});
}

TEST(ReshardingFigure2, task_one_sends_each_row_to_the_two_devices_that_want_it) {
  const std::vector<UnitTask> expected = {{{{0, 1}, {0, 4}}, {0}, {4, 5}},
                                          {{{1, 2}, {0, 4}}, {1}, {4, 5}},
                                          {{{2, 3}, {0, 4}}, {2}, {6, 7}},
                                          {{{3, 4}, {0, 4}}, {3}, {6, 7}}};
  EXPECT_EQ(unit_tasks({4, 4}, figure2_first, mesh_a, figure2_second, mesh_b), expected);
}

// The paper counts two unit tasks here, one for each source slice, but 64 in case 4 of its Table 2,
// which are intersections. These move no element that its receiver does not want.
TEST(ReshardingFigure2,
     task_two_sends_each_quarter_from_either_holder_to_the_one_device_that_wants_it) {
  const std::vector<UnitTask> expected = {{{{0, 2}, {0, 2}}, {4, 5}, {0}},
                                          {{{0, 2}, {2, 4}}, {4, 5}, {1}},
                                          {{{2, 4}, {0, 2}}, {6, 7}, {2}},
                                          {{{2, 4}, {2, 4}}, {6, 7}, {3}}};
  EXPECT_EQ(unit_tasks({4, 4}, figure2_second, mesh_b, figure2_third, mesh_a), expected);
}

TEST(ReshardingTable2, has_as_many_unit_tasks_in_each_of_its_nine_cases) {
  struct Case {
    std::vector<std::string> from, to;
    std::pair<int, int> source, destination;
    std::size_t tasks;
  };
  const std::vector<Case> cases = {
      {{"S0", "R", "R"}, {"S0", "R", "R"}, {2, 4}, {2, 4}, 2},
      {{"R", "R", "R"}, {"S0", "R", "R"}, {2, 4}, {2, 4}, 2},
      {{"R", "S0", "R"}, {"S0", "R", "R"}, {2, 4}, {2, 4}, 4},
      {{"R", "S01", "R"}, {"S01", "R", "R"}, {2, 4}, {2, 4}, 64},
      {{"S1", "R", "R"}, {"S0", "R", "R"}, {2, 4}, {2, 4}, 4},
      {{"S0", "R", "R"}, {"S0", "R", "R"}, {2, 4}, {3, 4}, 4},  // padded to 1026
      {{"S1", "R", "R"}, {"R", "R", "R"}, {1, 4}, {2, 4}, 4},
      {{"R", "R", "R"}, {"R", "R", "R"}, {2, 3}, {3, 2}, 1},
      {{"R", "S0", "R"}, {"R", "R", "S0"}, {2, 4}, {2, 4}, 4}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const Shape shape = {i == 5 ? 1026 : 1024, 1024, 512};
    const auto tasks =
        unit_tasks(shape, alpa_spec(c.from), device_mesh(c.source.first, c.source.second),
                   alpa_spec(c.to), device_mesh(c.destination.first, c.destination.second, 100));
    EXPECT_EQ(tasks.size(), c.tasks) << "case " << i + 1;
    // What arrives is the tensor, once at each receiver of a slice.
    std::map<std::size_t, std::int64_t> arrived;
    for (const UnitTask& task : tasks) {
      std::int64_t elements = 1;
      for (const auto& [first, end] : task.region) elements *= end - first;
      for (const std::size_t rank : task.to) arrived[rank] += elements;
    }
    const Mesh destination = device_mesh(c.destination.first, c.destination.second, 100);
    for (const Rank rank : destination.ranks)
      EXPECT_EQ(arrived[rank.index()], local_shape(shape, alpa_spec(c.to), destination).elements())
          << "case " << i + 1;
  }
}

}  // namespace
}  // namespace fourfold::op
