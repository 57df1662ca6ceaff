// The generator of mutants: what it makes differs, and is what a text can have.
#include "verify/mutants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "program/text.h"
#include "verify/random_jobs.h"

namespace fourfold::verify {
namespace {

TEST(Mutants, are_of_many_kinds_each_of_its_own_name) {
  const std::vector<std::string> kinds = mutant_kinds();
  EXPECT_EQ(std::set(kinds.begin(), kinds.end()).size(), kinds.size());
  EXPECT_GE(kinds.size(), 25U);
  const auto explained =
      std::ranges::count_if(kinds, [](const std::string& kind) { return !why_same(kind).empty(); });
  std::printf("%zu kinds, %td of which may compute the same\n", kinds.size(), explained);
}

/// Seeds of jobs among which each kind finds a place: of all models, with averages, rounded copies
/// and messages.
TEST(Mutants, of_each_kind_differ_and_are_read_back_from_their_text) {
  std::vector<std::string> missing = mutant_kinds();
  const std::size_t num_kinds = missing.size();
  std::set<Spread> spreads;
  for (const std::uint64_t seed : {9U, 0U, 1U, 2U, 4U, 11U}) {
    const program::Job job = test::draw_job(seed, {.most_ranks = 4}).job;
    std::mt19937_64 random(seed);
    std::erase_if(missing, [&](const std::string& kind) {
      const auto mutant = make_mutant(job, kind, random);
      if (!mutant) return false;
      EXPECT_NE(job, mutant->job) << mutant->what;
      EXPECT_EQ(mutant->kind, kind);
      EXPECT_EQ(program::parse_job(program::to_text(mutant->job), "mutant.txt"), mutant->job)
          << mutant->what;
      EXPECT_NE(text_difference(job, mutant->job), "") << mutant->what;
      spreads.insert(mutant->spread);
      return true;
    });
  }
  for (const std::string& kind : missing) ADD_FAILURE() << "no mutant differs: " << kind;
  EXPECT_EQ(spreads.size(), 3U) << "of " << num_kinds << " kinds";
}

TEST(Mutants, of_one_seed_are_one_mutant) {
  const program::Job job = test::draw_job(2, {.most_ranks = 8}).job;
  for (const std::string& kind : mutant_kinds()) {
    std::mt19937_64 one(7), other(7);
    const auto first = make_mutant(job, kind, one), second = make_mutant(job, kind, other);
    ASSERT_EQ(first.has_value(), second.has_value()) << kind;
    if (first) {
      EXPECT_EQ(first->job, second->job) << kind;
    }
  }
}

}  // namespace
}  // namespace fourfold::verify
