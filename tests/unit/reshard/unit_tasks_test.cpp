#include "reshard/unit_tasks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/format.h"
#include "reshard/paper_cases.h"

namespace fourfold::reshard {
namespace {

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) text += format(" {}", rank.index());
  return text;
}

std::string text_of(const MeshPair& pair) {
  std::string text;
  for (const UnitTask& task : unit_tasks(pair.from, pair.to))
    text += format("{}{} to{}; ", to_text(task.box), ranks_text(task.holders),
                   ranks_text(task.receivers));
  return text;
}

// Ranks 0 to 3 are mesh A, ranks 4 to 7 mesh B.
TEST(UnitTasks, of_figure_2_are_intersections) {
  EXPECT_EQ(text_of(place_pair({4, 4}, "S01R", {2, 2}, "S0R", {2, 2})),
            "[0:1, 0:4] 0 to 4 5; [1:2, 0:4] 1 to 4 5; [2:3, 0:4] 2 to 6 7; [3:4, 0:4] 3 to 6 7; ");
  // The second task of the figure goes from B to A; here its source has the ranks 0 to 3.
  EXPECT_EQ(text_of(place_pair({4, 4}, "S0R", {2, 2}, "S0S1", {2, 2})),
            "[0:2, 0:2] 0 1 to 4; [0:2, 2:4] 0 1 to 5; [2:4, 0:2] 2 3 to 6; [2:4, 2:4] 2 3 to 7; ");
}

TEST(UnitTasks, of_the_nine_cases_are_as_many_as_the_paper_counts) {
  const std::vector<std::size_t> counts{2, 2, 4, 64, 4, 4, 4, 1, 4};
  for (const PaperCase& one : paper_cases()) {
    const MeshPair pair =
        place_pair(shape_of(one, full_bytes), one.from, one.from_mesh, one.to, one.to_mesh);
    EXPECT_EQ(unit_tasks(pair.from, pair.to).size(),
              counts[static_cast<std::size_t>(one.number - 1)])
        << "case " << one.number;
  }
}

TEST(UnitTasks, leave_out_ranks_that_have_or_want_nothing) {
  EXPECT_EQ(text_of(place_pair({3}, "S0", {2, 1}, "S0", {4, 1})),
            "[0:1] 0 to 2; [1:2] 0 to 3; [2:3] 1 to 4; ");
  EXPECT_EQ(text_of(place_pair({0}, "S0", {2, 1}, "R", {1, 1})), "");
  EXPECT_EQ(text_of(place_pair({}, "", {2, 1}, "", {1, 2})), "[] 0 1 to 2 3; ");
}

/// ReshardPromise has how long that takes.
TEST(UnitTasks, of_many_ranks_are_as_many_as_intersect) {
  // 128 x 128 tasks, and then as many as ranks: 4096 pairs of 4096 would be 16 million.
  const MeshPair crossed = place_pair({256, 256}, "S01R", {16, 8}, "RS01", {16, 8});
  EXPECT_EQ(unit_tasks(crossed.from, crossed.to).size(), 128U * 128U);
  const MeshPair grids = place_pair({4096, 4096}, "S0S1", {64, 64}, "S0S1", {64, 64});
  EXPECT_EQ(unit_tasks(grids.from, grids.to).size(), 4096U);
}

}  // namespace
}  // namespace fourfold::reshard
