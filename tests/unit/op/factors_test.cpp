// Cuts of dims that are products of factors, against maps that say for each element who owns it.
#include "op/factors.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/format.h"
#include "base/random.h"
#include "op/factor_choice.h"
#include "op/reshape_factors.h"

namespace fourfold::op {
namespace {

/// Numbers that are the same at every run.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed, random_stream("test.factors")) {}
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(limit), next_++, 0));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }

 private:
  Random random_;
  std::uint64_t next_ = 0;
};

/// Which coordinate of each axis that cuts the dim owns element `index`, by the definition of a
/// cut; -1 where the axis does not cut it.
std::vector<std::int64_t> owner(std::int64_t index, std::int64_t size, const Cuts& cuts,
                                const Mesh& mesh) {
  std::vector<std::int64_t> coordinates(mesh.axes.size(), -1);
  std::int64_t rest = size;
  for (const Cut& cut : cuts) {
    const std::int64_t ranks = mesh.axes[cut.axis.index()].size;
    const std::int64_t stride = cut.stride.value_or((rest + ranks - 1) / ranks);
    coordinates[cut.axis.index()] = index / stride % ranks;
    rest = stride;
  }
  return coordinates;
}

/// Cuts of a factor by some of the axes that are still free, evenly.
Cuts random_cuts(Dice& dice, std::int64_t size, std::vector<AxisId>& free, const Mesh& mesh) {
  Cuts cuts;
  while (!free.empty() && dice.below(3) != 0) {
    const auto pick = static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(free.size())));
    const std::int64_t ranks = mesh.axes[free[pick].index()].size;
    if (size % ranks != 0) break;
    size /= ranks;
    cuts.push_back({free[pick], std::nullopt});
    free.erase(free.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  return cuts;
}

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 1;
  for (const std::int64_t size : sizes) total *= size;
  return total;
}

const Mesh mesh{"main", {{"a", 2}, {"b", 3}, {"c", 2}, {"d", 4}}, {}};
const std::vector<AxisId> all_axes = {AxisId(0), AxisId(1), AxisId(2), AxisId(3)};

TEST(OperandFactors, are_read_dim_by_dim) {
  const OperandFactors plain("btc"), products("b(hd)(pqr)x");
  ASSERT_EQ(plain.size(), 3U);
  EXPECT_EQ(plain[1], "t");
  ASSERT_EQ(products.size(), 4U);
  EXPECT_EQ(products[0], "b");
  EXPECT_EQ(products[1], "hd");
  EXPECT_EQ(products[2], "pqr");
  EXPECT_EQ(products[3], "x");
  EXPECT_EQ(products.letters(), "bhdpqrx");
  EXPECT_EQ(OperandFactors("").size(), 0U);
}

// Each element of a dim has the owner that the cuts of its factors give to its digits; and the
// factors that a dim's cuts are split into give the cuts back.
TEST(Factors, cuts_of_products_agree_with_owner_maps) {
  Dice dice(1);
  std::size_t cyclic = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const std::string letters =
        std::string("fgh").substr(0, static_cast<std::size_t>(dice.between(2, 3)));
    FactorSizes sizes;
    std::map<char, Cuts> cuts;
    std::vector<AxisId> free = all_axes;
    std::int64_t size = 1;
    for (const char factor : letters) {
      constexpr std::array<std::int64_t, 8> some = {1, 2, 3, 4, 6, 8, 12, 24};
      sizes[factor] = some[static_cast<std::size_t>(dice.below(8))];
      size *= sizes[factor];
      cuts[factor] = random_cuts(dice, sizes[factor], free, mesh);
    }
    const auto merged = merge_cuts(letters, sizes, cuts, mesh);
    ASSERT_TRUE(std::holds_alternative<Cuts>(merged)) << std::get<std::string>(merged);
    const Cuts& whole = std::get<Cuts>(merged);
    std::int64_t held = 0;
    std::vector<std::int64_t> first;
    bool in_runs = true, ended = false;
    for (std::int64_t index = 0; index < size; ++index) {
      std::vector<std::int64_t> expected(mesh.axes.size(), -1);
      std::int64_t inside = size;
      for (const char factor : letters) {
        inside /= sizes[factor];
        const auto digits =
            owner(index / inside % sizes[factor], sizes[factor], cuts[factor], mesh);
        for (std::size_t axis = 0; axis < digits.size(); ++axis)
          if (digits[axis] >= 0) expected[axis] = digits[axis];
      }
      const auto found = owner(index, size, whole, mesh);
      ASSERT_EQ(found, expected) << "element " << index << " of " << size;
      // What the first element's owner holds: how much, and whether in one run.
      if (index == 0) first = found;
      held += found == first ? 1 : 0;
      ended = ended || found != first;
      in_runs = in_runs && !(ended && found == first);
    }
    EXPECT_EQ(held, local_size(size, whole, mesh));
    EXPECT_EQ(!in_runs, is_cyclic(size, whole, mesh));
    cyclic += in_runs ? 0U : 1U;
    const auto split = split_cuts(letters, sizes, whole, mesh);
    ASSERT_TRUE((std::holds_alternative<std::map<char, Cuts>>(split)));
    const auto again = merge_cuts(letters, sizes, std::get<0>(split), mesh);
    EXPECT_EQ(std::get<Cuts>(again), whole);
  }
  EXPECT_GT(cyclic, 300U) << "inner factors were cut too";
}

TEST(Factors, a_cut_that_crosses_factors_names_its_axis_and_them) {
  const FactorSizes sizes = {{'f', 2}, {'g', 6}};
  const auto split = split_cuts("fg", sizes, {{AxisId(3), std::nullopt}}, mesh);
  EXPECT_EQ(std::get<std::string>(split), "axis d cuts across the factors fg");
  const auto merged = merge_cuts("fg", sizes, {{'f', {{AxisId(1), std::nullopt}}}}, mesh);
  EXPECT_EQ(std::get<std::string>(merged),
            "axis b does not divide the 2 of factor f, which shares a dim");
}

/// Shapes of the same elements.
Shape random_shape(Dice& dice, std::int64_t elements) {
  Shape shape;
  while (elements > 1 && shape.rank() < 3) {
    std::int64_t size = elements;
    if (dice.below(3) != 0) do
        size = dice.between(1, elements);
      while (elements % size != 0);
    shape.push_back(size);
    elements /= size;
  }
  if (elements > 1 || shape.rank() == 0) shape.push_back(elements);
  return shape;
}

std::vector<std::int64_t> owner_of_element(std::int64_t element, const Shape& shape,
                                           const Sharding& sharding) {
  std::vector<std::int64_t> coordinates(mesh.axes.size(), -1);
  for (std::size_t dim = shape.rank(); dim-- > 0;) {
    const auto digits = owner(element % shape[dim], shape[dim],
                              dim < sharding.dims.size() ? sharding.dims[dim] : Cuts(), mesh);
    element /= shape[dim];
    for (std::size_t axis = 0; axis < digits.size(); ++axis)
      if (digits[axis] >= 0) coordinates[axis] = digits[axis];
  }
  return coordinates;
}

// A reshape that keeps cuts keeps the owner of every element; what it cannot keep, or would keep
// only cyclically, is gathered before.
TEST(Reshape, keeps_owners_or_gathers) {
  Dice dice(2);
  std::size_t kept = 0, gathered = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    constexpr std::array<std::int64_t, 6> some = {12, 24, 36, 48, 72, 96};
    const std::int64_t elements = some[static_cast<std::size_t>(dice.below(6))];
    const Shape from = random_shape(dice, elements), to = random_shape(dice, elements);
    const FactorRule rule = reshape_factors(from, to);
    ASSERT_EQ(rule.operands[0].size(), from.rank());
    ASSERT_EQ(rule.operands[1].size(), to.rank());
    for (const auto& [operand, shape] : {std::pair(0U, from), std::pair(1U, to)})
      for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
        std::vector<std::int64_t> sizes;
        for (const char factor : rule.operands[operand][dim])
          sizes.push_back(rule.sizes.at(factor));
        ASSERT_EQ(product(sizes), shape[dim]) << to_string(from) << " to " << to_string(to);
      }
    Sharding wanted;
    std::vector<AxisId> free = all_axes;
    for (const std::int64_t size : from) wanted.dims.push_back(random_cuts(dice, size, free, mesh));
    FactorChoice choice(rule, mesh);
    choice.follow(0, wanted);
    const Sharding read = choice.cuts_of(0), claim = choice.cuts_of(1);
    const auto result =
        propagate(rule, std::vector<Sharding>{read}, std::vector<Sharding>{claim}, mesh);
    ASSERT_EQ(result.problem, "") << to_string(from) << " to " << to_string(to);
    for (std::size_t dim = 0; dim < result.outputs[0].dims.size(); ++dim)
      EXPECT_FALSE(is_cyclic(to[dim], result.outputs[0].dims[dim], mesh));
    for (std::int64_t element = 0; element < elements; ++element)
      ASSERT_EQ(owner_of_element(element, from, read),
                owner_of_element(element, to, result.outputs[0]))
          << to_string(from) << " to " << to_string(to) << ", element " << element;
    const auto cuts_in = [](const Sharding& sharding) {
      std::size_t count = 0;
      for (const Cuts& cuts : sharding.dims) count += cuts.size();
      return count;
    };
    kept += cuts_in(read);
    gathered += cuts_in(wanted) - cuts_in(read);
  }
  std::printf("reshapes: %zu cuts kept, %zu gathered\n", kept, gathered);
  EXPECT_GT(kept, 1000U);
  EXPECT_GT(gathered, 300U);
}

TEST(Reshape, knows_heads_and_what_two_shapes_have_in_common) {
  const auto cuts_after = [](const Shape& from, const Shape& to, Sharding read) {
    const FactorRule rule = reshape_factors(from, to);
    FactorChoice choice(rule, mesh);
    choice.follow(0, read);
    return choice.cuts_of(1).dims;
  };
  const Cuts a = {{AxisId(0), std::nullopt}};
  Sharding channels{MeshId(0), {{}, a}, {}};
  EXPECT_EQ(cuts_after({5, 24}, {5, 6, 4}, channels), (std::vector<Cuts>{{}, a, {}}));
  EXPECT_EQ(cuts_after({5, 24}, {10, 12}, channels), std::vector<Cuts>())
      << "the 2 of 10 are an inner factor: they would be cyclic";
  Sharding rows{MeshId(0), {a, {}}, {}};
  EXPECT_EQ(cuts_after({4, 6}, {6, 4}, rows), (std::vector<Cuts>{a, {}}));
  EXPECT_EQ(cuts_after({2, 3}, {3, 2}, rows), std::vector<Cuts>()) << "nothing in common";
}

}  // namespace
}  // namespace fourfold::op
