// The rows of collectives: names that are found again, sides that fit, and steps.
#include "base/collective.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace fourfold {
namespace {

TEST(Collective, is_found_by_its_name_as_machines_list_it) {
  std::set<std::string_view> names;
  for (const CollectiveFacts& row : collectives) {
    EXPECT_EQ(find_collective(row.name), row.kind);
    EXPECT_EQ(to_string(row.kind), row.name);
    EXPECT_EQ(&facts_of(row.kind), &row);
    names.insert(row.name);
  }
  EXPECT_EQ(names.size(), collectives.size());
  EXPECT_EQ(find_collective("send"), std::nullopt);
  EXPECT_EQ(find_collective("all_reduce "), std::nullopt);
  std::string list;
  for (const ExchangeKind kind : exchange_kinds()) list += std::string(to_string(kind)) + " ";
  EXPECT_EQ(list, "all_reduce all_gather reduce_scatter all_to_all send ")
      << "as files of machines and tables have them";
}

TEST(Collective, has_sides_that_fit_the_payload) {
  constexpr std::size_t members = 3, payload = 36;
  for (const CollectiveFacts& row : collectives) {
    const std::size_t before = row.bytes_before(payload, members),
                      after = row.bytes_after(payload, members);
    EXPECT_EQ(std::max(before, after), payload) << row.name;
    EXPECT_TRUE(row.fits(before, after, members)) << row.name;
    EXPECT_FALSE(row.fits(before + 1, after, members)) << row.name;
    EXPECT_FALSE(row.fits(before, after + 1, members)) << row.name;
    EXPECT_TRUE(row.fits(before, before, 1)) << row.name << " of one member";
    EXPECT_EQ(row.is_in_place(), row.shares_before(members) == 1 && row.shares_after(members) == 1)
        << row.name;
  }
  EXPECT_FALSE(facts_of(Collective::all_to_all).fits(35, 35, members)) << "shares are equal";
  EXPECT_FALSE(facts_of(Collective::all_gather).fits(36, 12, members)) << "it is no scatter";
}

TEST(Collective, says_what_becomes_of_cuts_and_terms) {
  struct Effect {
    Collective kind;
    bool reduces, scatters, gathers;
  };
  for (const Effect& one : {Effect{Collective::all_reduce, true, false, false},
                            Effect{Collective::reduce_scatter, true, true, false},
                            Effect{Collective::all_gather, false, false, true},
                            Effect{Collective::all_to_all, false, true, true}}) {
    const CollectiveFacts& row = facts_of(one.kind);
    EXPECT_EQ(row.reduces(), one.reduces) << row.name;
    EXPECT_EQ(row.scatters(), one.scatters) << row.name;
    EXPECT_EQ(row.gathers(), one.gathers) << row.name;
  }
}

TEST(Collective, takes_the_steps_of_a_tree_where_it_may) {
  EXPECT_EQ(facts_of(Collective::all_reduce).steps(8), 2 * 3);
  EXPECT_EQ(facts_of(Collective::all_reduce).steps(5), 2 * 3);
  EXPECT_EQ(facts_of(Collective::all_gather).steps(8), 7);
  EXPECT_EQ(facts_of(Collective::reduce_scatter).steps(8), 7);
  EXPECT_EQ(facts_of(Collective::all_to_all).steps(8), 7);
  for (const CollectiveFacts& row : collectives) EXPECT_EQ(row.steps(1), 0) << row.name;
}

}  // namespace
}  // namespace fourfold
