#include "support/covering_array.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <utility>

#include "support/layouts.h"

namespace fourfold::test {
namespace {

/// Every legal pair of values, as numbers of two factors and their values, by all assignments.
std::set<Assignment> pairs_of(const std::vector<Assignment>& rows) {
  std::set<Assignment> pairs;
  for (const Assignment& row : rows)
    for (std::size_t a = 0; a < row.size(); ++a)
      for (std::size_t b = a + 1; b < row.size(); ++b)
        pairs.insert({static_cast<int>(a), row[a], static_cast<int>(b), row[b]});
  return pairs;
}

std::vector<Assignment> all_legal(const Factors& factors) {
  std::vector<Assignment> all;
  Assignment row(factors.sizes.size(), 0);
  while (true) {
    if (factors.is_legal(row)) all.push_back(row);
    std::size_t factor = 0;
    while (factor < row.size() && ++row[factor] == factors.sizes[factor]) row[factor++] = 0;
    if (factor == row.size()) return all;
  }
}

TEST(CoveringArray, has_every_pair_that_some_legal_row_has_in_few_rows) {
  const Factors factors{{4, 3, 3, 2, 2}, [](const Assignment& row) {
                          const bool meets = row[0] == 1 && row[1] == 2;
                          return !meets && !(row[2] == 2 && row[3] == 1);
                        }};
  const CoveringArray array = CoveringArrayMaker(factors, 2, 1).make();
  for (const Assignment& row : array.rows) EXPECT_TRUE(factors.is_legal(row));
  EXPECT_EQ(pairs_of(array.rows), pairs_of(all_legal(factors)));
  EXPECT_LE(array.rows.size(), 16U);
  ASSERT_EQ(array.impossible.size(), 2U);
  EXPECT_EQ(array.impossible[0], (Assignment{1, 2, open_value, open_value, open_value}));
  EXPECT_EQ(array.impossible[1], (Assignment{open_value, open_value, 2, 1, open_value}));
}

TEST(CoveringArray, of_triples_has_every_pair_too) {
  const Factors factors{{3, 3, 2, 2}, [](const Assignment&) { return true; }};
  const CoveringArray array = CoveringArrayMaker(factors, 3, 1).make();
  EXPECT_TRUE(array.impossible.empty());
  EXPECT_EQ(pairs_of(array.rows), pairs_of(all_legal(factors)));
  EXPECT_GE(array.rows.size(), 18U);
  EXPECT_LE(array.rows.size(), 30U);
}

/// A rule takes few pairs away, and some by what both of them need of a third choice.
TEST(CoveringArray, of_layouts_has_nearly_all_pairs) {
  const CoveringArray array = CoveringArrayMaker(layouts::factors(), 2, 1).make();
  std::size_t pairs = 0;
  const std::vector<int> sizes = layouts::factors().sizes;
  for (std::size_t a = 0; a < sizes.size(); ++a)
    for (std::size_t b = a + 1; b < sizes.size(); ++b)
      pairs += static_cast<std::size_t>(sizes[a] * sizes[b]);
  EXPECT_EQ(pairs_of(array.rows).size() + array.impossible.size(), pairs);
  EXPECT_LE(array.impossible.size(), 90U);
  EXPECT_LE(array.rows.size(), 64U);
  std::printf("%zu jobs have %zu pairs; %zu do not go together\n", array.rows.size(), pairs,
              array.impossible.size());
}

}  // namespace
}  // namespace fourfold::test
