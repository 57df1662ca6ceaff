#include "trace/comparison.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"
#include "unit/trace/small_timeline.h"

namespace fourfold::trace {
namespace {

constexpr double micro_s = 1e-6;
constexpr double rounding_s = 1e-12;

/// The small timeline with a product of half the time; all else begins as early.
Timeline prediction() {
  Timeline timeline = small_timeline();
  for (RankTimeline& rank : timeline.ranks) {
    Interval& product = rank.steps[0].spans[0].when;
    product.end_ns -= 20'000;
    rank.steps[0].spans[1].when.begin_ns -= 20'000;
  }
  return timeline;
}

const Beside& row(const std::vector<Beside>& rows, const std::string& what) {
  for (const Beside& one : rows)
    if (one.what == what) return one;
  throw std::runtime_error("no row " + what);
}

TEST(Comparison, has_both_times_of_each_kind_of_work_and_they_add_up_to_the_step) {
  const Comparison comparison = compare(prediction(), "p", small_timeline(), "m");
  EXPECT_EQ(comparison.ranks, (std::vector<std::size_t>{0, 1}));
  EXPECT_NEAR(row(comparison.kinds, "gemm").predicted_s, 20 * micro_s, rounding_s);
  EXPECT_NEAR(row(comparison.kinds, "gemm").measured_s, 40 * micro_s, rounding_s);
  // Rank 0 waits for 20 us and rank 1 for 10 us.
  EXPECT_NEAR(row(comparison.kinds, "exposed x").measured_s, 15 * micro_s, rounding_s);
  EXPECT_NEAR(row(comparison.kinds, "exposed x").predicted_s, 35 * micro_s, rounding_s);
  double predicted_s = 0, measured_s = 0;
  for (const Beside& kind : comparison.kinds) {
    predicted_s += kind.predicted_s;
    measured_s += kind.measured_s;
  }
  EXPECT_NEAR(predicted_s, comparison.step.predicted_s, rounding_s);
  EXPECT_NEAR(measured_s, comparison.step.measured_s, rounding_s);
}

TEST(Comparison, puts_the_worst_prediction_first_and_leaves_out_waits) {
  const Comparison comparison = compare(prediction(), "p", small_timeline(), "m");
  ASSERT_FALSE(comparison.worst.empty());
  EXPECT_EQ(comparison.worst[0].what, "contract a -> b");
  EXPECT_NEAR(comparison.worst[0].error_s(), -20 * micro_s, rounding_s);
  for (const Beside& beside : comparison.worst) EXPECT_FALSE(beside.what.starts_with("wait"));
  for (const std::string& line : split(to_text(comparison), '\n')) EXPECT_LE(line.size(), 100U);
}

TEST(Comparison, rows_are_ordered_by_how_far_they_are_off_either_way) {
  const std::vector<Beside> rows = {{"a", 5, 6}, {"b", 9, 5}, {"c", 1, 1}, {"d", 2, 5}};
  const std::vector<Beside> most = furthest_off(rows, 2);
  ASSERT_EQ(most.size(), 2U);
  EXPECT_EQ(most[0].what, "b");
  EXPECT_EQ(most[1].what, "d");
  EXPECT_EQ(furthest_off(rows, 9).size(), 4U);
}

TEST(Comparison, looks_at_the_ranks_that_both_have) {
  Timeline one = prediction();
  one.ranks.erase(one.ranks.begin());
  const Comparison comparison = compare(one, "p", small_timeline(), "m");
  EXPECT_EQ(comparison.ranks, (std::vector<std::size_t>{1}));
  EXPECT_NEAR(row(comparison.kinds, "exposed x").measured_s, 10 * micro_s, rounding_s);
}

TEST(Comparison, of_different_jobs_is_refused_with_both_files) {
  Timeline other = prediction();
  other.ranks[1].works[0].text = "contract c -> d";
  try {
    compare(other, "p.json", small_timeline(), "m.json");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_NE(std::string(error.what()).find("p.json and m.json are of different jobs: rank 1"),
              std::string::npos);
  }
  other.ranks = {other.ranks[0]};
  Timeline only_last = small_timeline();
  only_last.ranks.erase(only_last.ranks.begin());
  try {
    compare(other, "p.json", only_last, "m.json");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()), "p.json and m.json have no rank in common");
  }
}

}  // namespace
}  // namespace fourfold::trace
