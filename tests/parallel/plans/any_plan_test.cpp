// Any legal plan runs: whatever axis cuts whatever factor of an op, and however what ops give is
// kept, the job has a proof, and computes on rank threads what one rank computes. With
// FOURFOLD_RANDOM_PLANS="FIRST COUNT" those seeds are tried, and what does not run is listed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "base/format.h"
#include "machine/known_clusters.h"
#include "search/layout_problem.h"
#include "solve/solvers.h"
#include "specification/specify.h"
#include "support/outcome.h"
#include "support/random_plans.h"
#include "verify/equal.h"
#include "verify/verify_job.h"

namespace fourfold::test {
namespace {

constexpr std::int64_t steps = 2;

struct Serial {
  Tensors weights;
  TrainingOutcome outcome;
};

class AnyPlan : public testing::TestWithParam<std::uint64_t> {
 protected:
  /// Why a plan does not run; empty where it does, and all is equal.
  std::string problem_of(const RandomPlan& drawn) {
    try {
      return tried(drawn);
    } catch (const std::exception& error) {
      return format("exception: {}", error.what());
    }
  }

  std::size_t num_compared = 0;  // over residues

 private:
  static RunSetup run_setup(const RandomPlan& drawn) {
    RunSetup setup;
    static_cast<JobSetup&>(setup) = drawn.setup;
    return setup;
  }

  const Serial& serial(const RandomPlan& drawn) {
    const auto place = serial_.find(drawn.serial);
    if (place != serial_.end()) return place->second;
    RunSetup setup = run_setup(drawn);
    setup.plan.micro_batch_size = setup.samples();
    setup.plan.grid = {};
    Serial made;
    made.weights = rough_weights(setup);
    made.outcome =
        run_job(setup, GridRun::compile_job(setup), made.weights, Gradients::in_the_step, steps);
    return serial_.emplace(drawn.serial, std::move(made)).first->second;
  }

  std::string tried(const RandomPlan& drawn) {
    const RunSetup setup = run_setup(drawn);
    const graph::ModelGraphs model = setup.graphs();
    const auto batching = plan::solve_batching(setup.plan);
    const auto planned =
        plan::make_plan(model, plan::make_mesh(setup.plan.grid), drawn.layout,
                        std::get<plan::Batching>(batching), DType::f64, drawn.checkpointing);
    if (const auto* infeasible = std::get_if<plan::Infeasible>(&planned)) {
      const auto* broken = std::get_if<plan::BrokenRule>(&infeasible->problems.at(0));
      return "infeasible: " + (broken == nullptr ? "" : broken->op + ": " + broken->problem);
    }
    const program::Job job =
        compile::compile(model, std::get<plan::Plan>(planned), kernels::cpu::target(1));
    for (const verify::Fault& fault : verify::verify(job))
      return format("rule {}: {}", fault.rule, fault.message);
    if (std::string problem = problem_over_residues(setup, job); !problem.empty()) return problem;
    const Serial& one = serial(drawn);
    return difference(run_job(setup, job, one.weights, Gradients::in_the_step, steps), one.outcome);
  }

  std::string problem_over_residues(const RunSetup& setup, const program::Job& job) {
    const program::Job specification = specification::specify(
        model::build_serial(setup.model(),
                            {setup.samples(), setup.plan.seq_length, setup.plan.global_batch_size,
                             setup.masks_documents, setup.restarts_positions, setup.plan.chunks},
                            setup.optimizer, setup.writes));
    constexpr std::int64_t quick = 60'000'000;
    if (verify::cost_of_equal(job, specification).operations > quick) return {};
    ++num_compared;
    const verify::Equal equal = verify::compare(job, specification);
    return equal.faults.empty() ? std::string{} : "residues: " + equal.faults[0].message;
  }

  static std::string difference(const TrainingOutcome& got, const TrainingOutcome& wanted) {
    const auto differs = [](double a, double b) {
      return !(std::abs(a - b) <= 1e-12 * std::abs(b));
    };
    for (std::size_t step = 0; step < wanted.losses.size(); ++step)
      if (differs(got.losses.at(step), wanted.losses[step]))
        return format("numbers: loss {} of step {}, not {}", got.losses[step], step + 1,
                      wanted.losses[step]);
    if (got.gradients.size() != wanted.gradients.size()) return "numbers: a gradient is not seen";
    if (const double error = error_of(got.gradients, wanted.gradients); !(error <= 1e-10))
      return format("numbers: gradients differ by {}", error);
    if (const double error = error_of(got.weights, wanted.weights); !(error <= 1e-10))
      return format("numbers: weights differ by {}", error);
    if (differs(got.evaluation, wanted.evaluation)) return "numbers: the evaluation differs";
    return got.digests == wanted.digests ? "" : "numbers: another start";
  }

  std::map<std::string, Serial> serial_;
};

/// Without the names and numbers of one job, so that equal reasons count together.
std::string kind_of(const std::string& problem) {
  std::istringstream words(problem);
  std::string kind, word;
  while (words >> word) {
    const bool is_name = std::ranges::any_of(word, [](char letter) {
      return letter == '/' || letter == '.' || (letter >= '0' && letter <= '9');
    });
    const std::string one = is_name ? "*" : word;
    if (!(is_name && kind.ends_with("*"))) kind += (kind.empty() ? "" : " ") + one;
  }
  return kind;
}

TEST_P(AnyPlan, runs_and_computes_what_one_rank_does) {
  std::uint64_t first = GetParam(), count = 20;
  if (const char* seeds = std::getenv("FOURFOLD_RANDOM_PLANS")) {
    if (first > 0) GTEST_SKIP() << "the first part tries the seeds of FOURFOLD_RANDOM_PLANS";
    std::istringstream(seeds) >> first >> count;
  }
  struct Reason {
    std::size_t count = 0;
    std::uint64_t seed = 0;
    std::string example;
  };
  std::map<std::string, Reason> reasons;
  std::size_t num_run = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const RandomPlan drawn = RandomPlans(seed).make();
    const std::string problem = problem_of(drawn);
    if (const std::uint64_t tried = seed - first + 1; tried % 100 == 0) {
      std::printf("%ju plans tried\n", std::uintmax_t{tried});
      std::fflush(stdout);
    }
    if (problem.empty()) {
      ++num_run;
      continue;
    }
    Reason& reason = reasons[kind_of(problem)];
    if (reason.count++ == 0) reason = {1, seed, format("{}: {}", drawn.name, problem)};
    EXPECT_TRUE(problem.starts_with("infeasible"))
        << "seed " << seed << ", " << drawn.name << ": " << problem;
  }
  std::printf("%zu of %zu plans run, %zu of them compared over residues\n", num_run,
              static_cast<std::size_t>(count), num_compared);
  for (const auto& [kind, reason] : reasons)
    std::printf("%5zu  %s\n       seed %ju: %s\n", reason.count, kind.c_str(),
                std::uintmax_t{reason.seed}, reason.example.c_str());
  EXPECT_GE(10 * num_run, 9 * count);
}

/// Plans that a search may come to: of any costs, since these are drawn. The vocabulary of a GPT is
/// cut with padding where that is drawn.
class SearchedPlan : public AnyPlan {
 protected:
  /// Draws a layout out of those that the search chooses from; false where there is none.
  static bool draw_searched(RandomPlan& drawn, std::uint64_t seed) {
    constexpr std::int64_t wide = 517;
    bool is_drawn = false;
    if (!drawn.setup.is_of_pictures()) {
      drawn.setup.gpt.vocab_size = wide;
      drawn.serial += format(", {} words", wide);
    }
    const Mesh mesh = plan::make_mesh(drawn.setup.plan.grid);
    const graph::ModelGraphs model = drawn.setup.graphs();
    const auto start = plan::make_layout(model, drawn.setup.plan, mesh);
    if (!std::holds_alternative<plan::Layout>(start)) return false;
    const machine::Cluster cluster = machine::load_cluster("perlmutter-40gb");
    search::Pricer pricer(cluster, *machine::rate_of(cluster.device, DType::f32), 0);
    search::LayoutSetting setting;
    setting.mesh = &mesh;
    setting.groups = search::groups_in_order(mesh, drawn.setup.plan.grid.order);
    setting.batching = std::get<plan::Batching>(plan::solve_batching(drawn.setup.plan));
    setting.open = search::axes_to_cut(mesh, std::get<plan::Layout>(start).samples);
    setting.open.resize(std::min<std::size_t>(setting.open.size(), drawn.setup.unet ? 1 : 2));
    const search::LayoutProblem problem(model.at(op::ProgramKind::train),
                                        std::get<plan::Layout>(start), setting, pricer);
    std::mt19937_64 random(seed);
    const std::size_t draws = drawn.setup.is_of_pictures() ? 1 : 30;
    for (std::size_t i = 0; i < draws; ++i) {
      solve::Problem costs = problem.problem();
      for (solve::Node& node : costs.nodes)
        for (double& cost : node.comp) cost = static_cast<double>(random() % 1000);
      for (solve::Edge& edge : costs.edges)
        for (double& cost : edge.comm) cost = cost == solve::forbidden ? cost : 0;
      const auto outcome = solve::solve(costs, "o2");
      const auto* solution = std::get_if<solve::Solution>(&outcome);
      if (solution == nullptr) continue;
      drawn.layout = problem.layout(solution->choices);
      is_drawn = true;
      if (!drawn.setup.is_of_pictures() &&
          plan::is_padded(drawn.layout.parameters.at("wte.weight").rest))
        break;
    }
    drawn.name += ", searched";
    return is_drawn;
  }
};

TEST_P(SearchedPlan, runs_and_computes_what_one_rank_does) {
  std::size_t num_run = 0, terms = 0, padded = 0;
  for (std::uint64_t seed = GetParam(); seed < GetParam() + 6; ++seed) {
    RandomPlan drawn = RandomPlans(seed).make();
    if (!draw_searched(drawn, seed)) continue;
    EXPECT_EQ(problem_of(drawn), "") << "seed " << seed << ", " << drawn.name;
    ++num_run;
    for (const auto& [name, keep] : drawn.layout.activations) terms += keep.sums_stay ? 1 : 0;
    for (const auto& [name, parameter] : drawn.layout.parameters)
      padded += plan::is_padded(parameter.rest) ? 1 : 0;
  }
  std::printf(
      "%zu searched plans run, in which %zu values are kept as terms and %zu tables padded\n",
      num_run, terms, padded);
  EXPECT_GE(num_run, 4U);
  EXPECT_GT(padded, 0U);
}

INSTANTIATE_TEST_SUITE_P(From, SearchedPlan, testing::Values(0),
                         [](const auto& first) { return std::to_string(first.param); });
INSTANTIATE_TEST_SUITE_P(From, AnyPlan, testing::Values(0, 20, 40),
                         [](const auto& first) { return std::to_string(first.param); });

}  // namespace
}  // namespace fourfold::test
