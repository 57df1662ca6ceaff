// Layers and ranks of the stages of a pipeline: the best divisions beside all that there are.
#include "search/divide_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace fourfold::search {
namespace {

/// All ways to write a number as a sum of so many of the choices.
void add_sums(std::int64_t rest, std::size_t terms, const std::vector<std::int64_t>& choices,
              std::vector<std::int64_t>& chosen, std::vector<std::vector<std::int64_t>>& all) {
  if (chosen.size() == terms) {
    if (rest == 0) all.push_back(chosen);
    return;
  }
  for (const std::int64_t choice : choices) {
    if (choice > rest) continue;
    chosen.push_back(choice);
    add_sums(rest - choice, terms, choices, chosen, all);
    chosen.pop_back();
  }
}

std::vector<std::vector<std::int64_t>> sums_of(std::int64_t number, std::size_t terms,
                                               const std::vector<std::int64_t>& choices) {
  std::vector<std::int64_t> chosen;
  std::vector<std::vector<std::int64_t>> all;
  add_sums(number, terms, choices, chosen, all);
  return all;
}

std::vector<std::int64_t> up_to(std::int64_t most) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(most));
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

double step_work(const DivisionSpec& spec, const std::vector<std::int64_t>& layers,
                 const std::vector<std::int64_t>& ranks) {
  double most = 0, all = 0;
  std::size_t begin = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const std::size_t end = begin + static_cast<std::size_t>(layers[stage]);
    const double work =
        (spec.work_before[end] - spec.work_before[begin]) / static_cast<double>(ranks[stage]);
    most = std::max(most, work);
    all += work;
    begin = end;
  }
  return all + static_cast<double>(spec.micros - 1) * most;
}

TEST(DivideRanks, no_division_has_less_work_in_a_step) {
  std::mt19937 random(1);
  std::size_t unequal = 0;
  for (int i = 0; i < 60; ++i) {
    DivisionSpec spec;
    spec.stages = 1 + random() % 3;
    const auto layers = static_cast<std::int64_t>(spec.stages + random() % 4);
    spec.ranks = static_cast<std::int64_t>(spec.stages + random() % 6);
    spec.micros = 1 + static_cast<std::int64_t>(random() % 16);
    spec.choices = up_to(spec.ranks);
    spec.work_before = {0};
    for (std::int64_t layer = 0; layer < layers; ++layer)
      spec.work_before.push_back(spec.work_before.back() + 1 + static_cast<double>(random() % 9));
    // All divisions are kept, so that none is passed over on the way.
    const std::vector<Division> best = best_divisions(spec, 5000);
    std::vector<double> all;
    for (const auto& of_layers : sums_of(layers, spec.stages, up_to(layers)))
      for (const auto& of_ranks : sums_of(spec.ranks, spec.stages, spec.choices))
        all.push_back(step_work(spec, of_layers, of_ranks));
    std::ranges::sort(all);
    ASSERT_EQ(best.size(), all.size());
    for (std::size_t k = 0; k < all.size(); ++k)
      ASSERT_NEAR(best[k].step_work(spec.micros), all[k], 1e-9 * all[k]) << k;
    unequal += std::ranges::min(best[0].ranks) < std::ranges::max(best[0].ranks) ? 1 : 0;
    EXPECT_NEAR(best_divisions(spec, 4)[0].step_work(spec.micros), all[0], 0.05 * all[0]);
  }
  EXPECT_GT(unequal, 20U);
}

TEST(DivideRanks, layers_that_are_given_stay_and_ranks_follow_them) {
  const DivisionSpec spec{.work_before = {0, 3, 4, 5, 6},
                          .stages = 2,
                          .ranks = 12,
                          .micros = 8,
                          .layers = {1, 3},
                          .choices = {3, 6, 9}};
  const std::vector<Division> best = best_divisions(spec, 3);
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0].layers, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(best[0].ranks, (std::vector<std::int64_t>{6, 6}));
  EXPECT_EQ(best[0].most_work, 0.5);
  EXPECT_EQ(best[1].ranks.size(), 2U);
}

}  // namespace
}  // namespace fourfold::search
