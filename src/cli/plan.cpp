#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "cli/commands.h"
#include "cli/prepare_to_look.h"
#include "config/changes.h"
#include "config/number.h"
#include "job/config_source.h"
#include "job/given_layout.h"
#include "job/job.h"
#include "job/prove_meetings.h"
#include "job/rank_plans.h"
#include "job/settle.h"
#include "machine/known_clusters.h"
#include "screen/print.h"
#include "screen/rows.h"
#include "show/plan_report.h"
#include "show/ranking_text.h"
#include "show/summary.h"
#include "solve/problem_file.h"
#include "solve/solution_text.h"
#include "solve/solvers.h"

namespace fourfold::cli {
namespace {

void refuse_without_machine(const PlanArguments& arguments) {
  const char* given = arguments.nodes                     ? "--nodes"
                      : arguments.top                     ? "--top"
                      : !arguments.tokens.empty()         ? "--tokens"
                      : arguments.simulated               ? "--simulate"
                      : !arguments.explain.empty()        ? "--explain"
                      : arguments.chosen                  ? "--choose"
                      : !arguments.problem_output.empty() ? "--write-problem"
                      : arguments.format != "text"        ? "--format"
                                                          : nullptr;
  if (given != nullptr)
    throw UserError(ExitCode::bad_config,
                    format("{} needs --machine, whose grids it is about; `fourfold machines` lists "
                           "those that are known",
                           given));
}

std::optional<std::int64_t> tokens_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto read = config::read_integer(text);
  const auto* number = std::get_if<std::int64_t>(&read);
  if (number == nullptr || *number < 1)
    throw UserError(ExitCode::bad_config,
                    format("--tokens {}: expected a whole number from 1 on, as 300B", text));
  return *number;
}

void write_layout(const std::string& file, const std::string& layout) {
  write_file_atomic(file, layout);
  screen::tell(format("layout: {0} (use it with --set parallel.layout={0})", file));
}

void plan_on_machine(const PlanArguments& arguments) {
  constexpr std::int64_t usual_top = 10;
  const std::optional<std::int64_t> tokens = tokens_of(arguments.tokens);
  machine::Cluster cluster = machine::load_cluster(arguments.machine);
  const config::Config loaded = job::load_config(arguments.config, job::Takes::any_grid),
                       config = config::with_model(loaded, job::model_of(loaded, nullptr));
  const auto top = static_cast<std::size_t>(arguments.top.value_or(usual_top));
  const std::size_t simulated =
      arguments.simulated ? static_cast<std::size_t>(*arguments.simulated) : top;
  const job::Ranking ranking =
      job::rank_plans(config, std::move(cluster),
                      {.ranks = arguments.ranks, .nodes = arguments.nodes, .simulated = simulated});
  std::optional<show::TrainingCost> cost;
  if (tokens) cost = show::training_cost(ranking, *tokens);
  std::string text;
  if (!arguments.explain.empty())
    text = show::explanation_text(ranking, arguments.explain[0], arguments.explain[1]);
  else if (arguments.format == "json")
    text = show::ranking_json(ranking, top, cost).dump() + "\n";
  else
    text = show::ranking_text(ranking, top, cost);
  screen::print("%s", text.c_str());
  const std::int64_t chosen = arguments.chosen.value_or(1);
  if (!arguments.output.empty())
    write_layout(arguments.output, job::layout_text(job::planned_of(ranking, chosen)));
  if (!arguments.problem_output.empty())
    write_file_atomic(arguments.problem_output, job::layout_problem_of(ranking, chosen));
}

void solve_problem(const PlanArguments& arguments) {
  const solve::Solver& solver = solve::find_solver(arguments.solver);
  const solve::Problem problem = solve::load_problem(arguments.problem);
  solve::Outcome outcome = solve::solve(problem, solver.name);
  if (const auto* refused = std::get_if<solve::Refused>(&outcome))
    throw UserError(refused->code, format("{}: {}", arguments.problem, refused->reason));
  solve::Solution& solution = std::get<solve::Solution>(outcome);
  solve::raise_lower_bound(problem, solution);
  const std::string text = arguments.format == "json"
                               ? solve::solution_json(problem, solver.name, solution).dump() + "\n"
                               : solve::solution_text(problem, solver.name, solution);
  screen::print("%s", text.c_str());
}

}  // namespace

void plan(const PlanArguments& arguments) {
  if (!arguments.problem.empty()) return solve_problem(arguments);
  if (!arguments.machine.empty()) return plan_on_machine(arguments);
  refuse_without_machine(arguments);
  job::Job job = prepare_to_look(job::load_config(arguments.config), arguments.ranks);
  job::prove_meetings(job);
  for (const std::string& section :
       {without_styles(screen::to_text(show::summary_rows(job))), show::parameter_table(job),
        show::memory_table(job), show::traffic_table(job), show::program_table(job)})
    screen::print("%s\n", section.c_str());
  const std::string layout = arguments.output.empty() ? "" : job::layout_text(job);
  const std::string switches = show::switch_table(std::move(job));
  if (!switches.empty()) screen::print("%s\n", switches.c_str());
  if (!layout.empty()) write_layout(arguments.output, layout);
}

}  // namespace fourfold::cli
