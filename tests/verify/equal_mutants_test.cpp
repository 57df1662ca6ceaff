// What verify/ says of random jobs and of their mutants: sound jobs raise no alarm, and a mutant
// that trains otherwise is named, by a rule or by the comparison over residues.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/format.h"
#include "program/text.h"
#include "specification/specify.h"
#include "support/unet_stages.h"
#include "verify/equal.h"
#include "verify/mutants.h"
#include "verify/random_jobs.h"
#include "verify/run_whole_job.h"
#include "verify/verify_job.h"

namespace fourfold::verify {
namespace {

/// A quarter of an hour of two cores, so that nothing else asks for it.
bool is_whole_trial() {
  return std::getenv("FOURFOLD_MUTANTS") != nullptr;
}

/// A job with its specification, and with what it computes, once that is asked for.
class TriedJob {
 public:
  TriedJob(std::uint64_t seed, const test::DrawLimits& limits)
      : drawn_(test::draw_job(seed, limits)),
        specification_(specification::specify(test::serial_graphs(drawn_))) {}

  const program::Job& job() const { return drawn_.job; }
  const std::string& name() const { return drawn_.name; }

  /// What the rules say first of a job; nothing where they find nothing.
  static std::optional<Fault> fault_of_rules(const program::Job& job) {
    const std::vector<Fault> faults = verify(job);
    return faults.empty() ? std::nullopt : std::optional(faults.front());
  }
  std::optional<Fault> fault_over_residues(const program::Job& job) const {
    const Equal equal = compare(job, specification_);
    return equal.faults.empty() ? std::nullopt : std::optional(equal.faults.front());
  }
  /// In which numbers a run of a mutant differs from that of the job; empty where in none.
  std::string difference_in_a_run(const program::Job& mutant) {
    if (!whole_run_) whole_run_ = test::run_whole_job(drawn_.setup, drawn_.job);
    EXPECT_EQ(whole_run_->fault, "") << drawn_.name;
    // Beside bf16 some fifty roundings lie between a sample and its loss.
    const bool is_exact = drawn_.setup.plan.compute == DType::f64;
    return test::difference(test::run_whole_job(drawn_.setup, mutant), *whole_run_,
                            is_exact ? 1e-10 : 8 * 0x1p-8);
  }

 private:
  test::DrawnJob drawn_;
  program::Job specification_;
  std::optional<test::WholeRun> whole_run_;
};

/// Random jobs that are tried in one case: 520 in a whole trial.
constexpr std::uint64_t num_cases = 4;

class EqualRandomJobs : public testing::TestWithParam<std::uint64_t> {};

TEST_P(EqualRandomJobs, raise_no_alarm) {
  const std::uint64_t count = is_whole_trial() ? 130 : 2;
  const std::uint64_t first = (is_whole_trial() ? 10000 : 0) + GetParam() * count;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const TriedJob tried(seed, {.most_ranks = is_whole_trial() ? 32 : 6});
    for (const auto& fault :
         {TriedJob::fault_of_rules(tried.job()), tried.fault_over_residues(tried.job())})
      EXPECT_FALSE(fault.has_value())
          << seed << ": " << tried.name() << ": " << fault->rule << ": " << fault->message;
  }
  std::printf("seeds %ju to %ju\n", std::uintmax_t{first}, std::uintmax_t{first + count - 1});
}

INSTANTIATE_TEST_SUITE_P(Drawn, EqualRandomJobs, testing::Range(std::uint64_t{0}, num_cases),
                         testing::PrintToStringParamName());

/// Stages whose states are cut on data and averaged, and a table that has padding on both meshes.
TEST(EqualJobsInStages, raise_no_alarm_where_rules_once_did) {
  test::RunSetup averages = test::stages::unet_of(true);
  averages.plan.global_batch_size = 8;
  averages.plan.micro_batch_size = 2;
  averages.plan.shard_states = true;
  averages.unet->layers_per_level = 1;
  averages.unet->diffusion.average_decay = 0.9;
  test::RunSetup padding = test::stages::gpt();
  padding.plan.global_batch_size = 8;
  padding.plan.micro_batch_size = 4;
  padding.gpt.num_layers = 2;
  padding.gpt.vocab_size = 37;
  struct Case {
    test::RunSetup setup;
    test::stages::Pipeline stages;
  };
  const std::vector<Case> cases = {
      {averages, {{{.data = 2}, {.x = 2, .data = 2}}, {3}}},
      {padding, {{{.x = 4}, {.x = 2}}, {0}}},
      {padding, {{{.x = 2}, {.y = 2, .data = 2}}, {0}}},
  };
  for (const auto& [setup, stages] : cases) {
    const program::Job job = test::stages::compile_stages(setup, stages);
    const Equal equal = compare(job, specification::specify(model::build_serial(
                                         setup.model(),
                                         {test::stages::samples_of(setup, stages.grids[0]),
                                          setup.plan.seq_length, setup.plan.global_batch_size},
                                         setup.optimizer)));
    EXPECT_TRUE(equal.faults.empty())
        << test::stages::name_of(stages, pipeline::Schedule::one_f_one_b) << ": "
        << equal.faults.front().message;
  }
}

/// What has been seen of the mutants of a kind.
struct Seen {
  int made = 0, by_rules = 0, by_residues = 0, survived = 0;
  int alike = 0;  // of those named over residues alone: what a run of them leaves is the same
};

/// Makes mutants, and counts who names them.
class MutantTrial {
 public:
  /// Tries a mutant of that kind of a job.
  void run(TriedJob& tried, const std::string& kind, std::mt19937_64& random) {
    const auto mutant = make_mutant(tried.job(), kind, random);
    if (!mutant) return;
    Seen& seen = by_kind_[kind];
    ++seen.made;
    if (seen.made % 4 == 1) {
      EXPECT_EQ(program::parse_job(program::to_text(mutant->job), "mutant.txt"), mutant->job)
          << mutant->what;
    }
    if (const auto fault = TriedJob::fault_of_rules(mutant->job)) {
      ++seen.by_rules;
      ++by_rule_[fault->rule];
      return;
    }
    const bool is_named = tried.fault_over_residues(mutant->job).has_value();
    seen.by_residues += is_named ? 1 : 0;
    if (is_named && !is_whole_trial()) return;
    const std::string difference = tried.difference_in_a_run(mutant->job);
    if (is_named) {
      if (difference.empty()) note_alike(seen, *mutant);
      return;
    }
    ++seen.survived;
    EXPECT_EQ(difference, "") << "neither rules nor residues name it: " << mutant->what << "\n"
                              << tried.name() << "\n"
                              << text_difference(tried.job(), mutant->job);
    EXPECT_NE(why_same(kind), "") << "it computes the same: " << mutant->what << "\n"
                                  << text_difference(tried.job(), mutant->job);
  }

  void print() const {
    Seen all;
    std::printf("%-50s made  rules  residues (a run: same)  survivors\n", "");
    for (const auto& [kind, seen] : by_kind_) {
      std::printf("%-50s %4d  %5d  %8d %12d  %9d%s\n", kind.c_str(), seen.made, seen.by_rules,
                  seen.by_residues, seen.alike, seen.survived, reason(kind, seen).c_str());
      all.made += seen.made, all.by_rules += seen.by_rules, all.by_residues += seen.by_residues;
      all.alike += seen.alike, all.survived += seen.survived;
    }
    std::printf("%-50s %4d  %5d  %8d %12d  %9d\n", format("{} kinds", by_kind_.size()).c_str(),
                all.made, all.by_rules, all.by_residues, all.alike, all.survived);
    for (const auto& [rule, count] : by_rule_) std::printf("  %s %d", rule.c_str(), count);
    std::printf("\n");
  }

 private:
  static std::string reason(const std::string& kind, const Seen& seen) {
    return seen.survived == 0 ? std::string() : format("  {}", why_same(kind));
  }
  void note_alike(Seen& seen, const Mutant& mutant) {
    ++seen.alike;
    std::printf("named over residues, and a run is the same: %s\n", mutant.what.c_str());
  }

  std::map<std::string, Seen> by_kind_;
  std::map<std::string, int> by_rule_;  // the first fault of each mutant
};

/// Jobs that are tried in one case, and the mutants of each: some 3,300 in a whole trial.
constexpr std::uint64_t num_parts = 8;
struct Share {
  std::uint64_t jobs, mutants;
};
Share share_of_a_part() {
  return is_whole_trial() ? Share{40, 12} : Share{1, 14};
}

class EqualMutants : public testing::TestWithParam<std::uint64_t> {
 protected:
  static MutantTrial& trial() {
    static MutantTrial all;
    return all;
  }
};

TEST_P(EqualMutants, that_compute_something_else_are_named) {
  const std::vector<std::string> kinds = mutant_kinds();
  const auto [jobs, mutants] = share_of_a_part();
  const std::uint64_t first = 20000 + GetParam() * jobs;
  for (std::uint64_t seed = first; seed < first + jobs; ++seed) {
    TriedJob tried(seed, {.most_ranks = is_whole_trial() ? 12 : 6, .is_exact = seed % 4 != 0});
    std::mt19937_64 random(seed);
    for (std::uint64_t i = 0; i < mutants; ++i)
      trial().run(tried, kinds[(seed * mutants + i) % kinds.size()], random);
  }
  std::printf("seeds %ju to %ju\n", std::uintmax_t{first}, std::uintmax_t{first + jobs - 1});
  trial().print();
}

INSTANTIATE_TEST_SUITE_P(Drawn, EqualMutants, testing::Range(std::uint64_t{0}, num_parts),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace fourfold::verify
