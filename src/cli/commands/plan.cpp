#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "cli/command.h"
#include "cli/prepare_to_look.h"
#include "cli/shared_options.h"
#include "config/changes.h"
#include "config/number.h"
#include "config/schema.h"
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

struct PlanArguments {
  job::ConfigSource config;
  std::optional<std::int64_t> ranks, nodes, top, simulated, chosen;
  std::vector<std::int64_t> explain;  // two places of the list
  std::string machine, tokens, output, problem_output, problem;
  std::string format = "text", solver = "elimination";
};

void list_options(OptionList& options, PlanArguments& given) {
  options.add("CONFIG", given.config.files, yaml_files);
  add_set_option(options, given.config);
  add_ranks_option(options, given.ranks);
  options.add("--machine", given.machine,
              "Price every legal grid on this machine: a name of `fourfold machines`, or a file",
              {.offers = machine_names});
  options.add("--nodes", given.nodes, "Nodes of the machine, in place of --ranks",
              {.within = Whole{1, config::most_ranks}, .excludes = "--ranks"});
  options.add("--top", given.top, "With --machine: show so many grids (default: 10)",
              {.within = Whole{1, 1'000'000}});
  options.add(
      "--simulate", given.simulated,
      "With --machine: compile and simulate so many of the best by each formula (default: as "
      "many as are shown; 0: closed forms alone)",
      {.within = Whole{0, 1'000'000}});
  options.add("--tokens", given.tokens,
              "With --machine: say what training on so many tokens takes, as 300B",
              {.value_name = "T"});
  options.add("--explain", given.explain,
              "With --machine: say why one place of the list is faster than another",
              {.count = 2, .value_name = "A B"});
  add_format_option(options, given.format,
                    "With --machine or --problem: text, or json in seconds and bytes");
  options.add("-o,--output", given.output,
              "Write the layout to this file, for parallel.layout; with --machine that of a plan "
              "of the list");
  options.add("--write-problem", given.problem_output,
              "With --machine: write what is solved to find a layout, for --problem");
  options.add("--choose", given.chosen,
              "With --machine: the plan of the list that --output and --write-problem are of "
              "(default: 1)",
              {.value_name = "N", .within = Whole{1, 1'000'000}});
  options.add("--problem", given.problem,
              "Solve this assignment problem instead: a JSON file of nodes and edges with their "
              "costs");
  options.add("--solver", given.solver,
              "With --problem: elimination, o3, o2, o2-once, ilp, ilp-tight or exhaustive",
              {.shows_default = true, .needs = "--problem"});
}

std::string fault_of(const PlanArguments& arguments) {
  if (arguments.config.files.empty() == arguments.problem.empty())
    return "plan: give either CONFIG or --problem FILE";
  const bool is_more = arguments.ranks || arguments.nodes || arguments.top || arguments.simulated ||
                       !arguments.machine.empty() || !arguments.tokens.empty() ||
                       !arguments.explain.empty() || !arguments.config.sets.empty() ||
                       !arguments.output.empty() || !arguments.problem_output.empty() ||
                       arguments.chosen;
  if (!arguments.problem.empty() && is_more)
    return "--problem: is solved alone; leave out all but --solver and --format";
  return {};
}

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

}  // namespace

void add_plan(Commands& commands) {
  commands.add({"plan", After{"program"}, "Print what a run would be, without running it",
                "plan configs/paper/gpt-20b.yaml --machine perlmutter-40gb --ranks 32"},
               list_options, plan, fault_of);
}

}  // namespace fourfold::cli
