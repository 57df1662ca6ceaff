// Options of what looks at a job without running it: its configuration, plan, programs and price.
#include "base/text.h"
#include "command_line/options.h"
#include "compile/passes.h"
#include "config/schema.h"
#include "config/template.h"

namespace fourfold::command_line {
namespace {

std::vector<std::string> pass_names(bool is_optional_only) {
  std::vector<std::string> names;
  for (const compile::Pass& pass : compile::passes())
    if (pass.is_optional || !is_optional_only) names.emplace_back(pass.name);
  return names;
}

}  // namespace

void add_config(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("config", "Look at configurations");
  sub->require_subcommand(1);
  auto* check = sub->add_subcommand("check", "Check a configuration");
  add_config_options(*check, commands.config_check);
  check->callback(
      [&] { commands.chosen = [&] { commands.actions.config_check(commands.config_check); }; });

  auto* show = sub->add_subcommand("show", "Print every setting and where its value comes from");
  show->add_option("CONFIG", commands.config_show.config.files,
                   "YAML files, merged from left to right, or the folder of a run")
      ->required();
  add_set_option(*show, commands.config_show.config);
  show->add_flag("--plain", commands.config_show.plain, "Leave out where values come from");
  show->callback(
      [&] { commands.chosen = [&] { commands.actions.config_show(commands.config_show); }; });

  auto* diff = sub->add_subcommand("diff", "Print the settings in which two configurations differ");
  diff->add_option("A", commands.config_diff.left,
                   "A YAML file, or the folder of a run, whose sessions are all compared")
      ->required();
  diff->add_option("B", commands.config_diff.right, "The other one, a file or a folder too")
      ->required();
  diff->callback(
      [&] { commands.chosen = [&] { commands.actions.config_diff(commands.config_diff); }; });

  auto* explain = sub->add_subcommand("explain", "Say what a key means and costs");
  explain->add_option("KEY", commands.config_explain.key,
                      "A key or a section, such as model.num_layers or model (default: all)");
  explain->add_flag("--markdown", commands.config_explain.markdown,
                    "Print the page configs/KEYS.md");
  explain->callback(
      [&] { commands.chosen = [&] { commands.actions.config_explain(commands.config_explain); }; });

  auto* schema = sub->add_subcommand("schema", "Print a JSON Schema, for editors");
  schema->callback([&] { commands.chosen = [&] { commands.actions.config_schema(); }; });

  auto* make = sub->add_subcommand("new", "Write a commented configuration to start from");
  make->add_option("--model", commands.config_new.model, "The family of the model")
      ->capture_default_str();
  make->add_option("--size", commands.config_new.size,
                   "Parameters: " + config::template_sizes_text());
  make->add_option("-o,--output", commands.config_new.output,
                   "A new file (default: standard output)");
  make->callback(
      [&] { commands.chosen = [&] { commands.actions.config_new(commands.config_new); }; });
}

void add_plan(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("plan", "Print what a run would be, without running it");
  PlanArguments& arguments = commands.plan;
  sub->add_option("CONFIG", arguments.config.files, "YAML files, merged from left to right");
  add_set_option(*sub, arguments.config);
  add_ranks_option(*sub, arguments.ranks);
  sub->add_option(
      "--machine", arguments.machine,
      "Price every legal grid on this machine: a name of `fourfold machines`, or a file");
  sub->add_option("--nodes", arguments.nodes, "Nodes of the machine, in place of --ranks")
      ->check(CLI::Range(std::int64_t{1}, config::most_ranks))
      ->excludes("--ranks");
  sub->add_option("--top", arguments.top, "With --machine: show so many grids (default: 10)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  sub->add_option(
         "--simulate", arguments.simulated,
         "With --machine: compile and simulate so many of the best by each formula (default: as "
         "many as are shown; 0: closed forms alone)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}));
  sub->add_option("--tokens", arguments.tokens,
                  "With --machine: say what training on so many tokens takes, as 300B")
      ->type_name("T");
  sub->add_option("--explain", arguments.explain,
                  "With --machine: say why one place of the list is faster than another")
      ->expected(2)
      ->type_name("A B");
  sub->add_option("--format", arguments.format,
                  "With --machine or --problem: text, or json in seconds and bytes")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  sub->add_option("-o,--output", arguments.output,
                  "Write the layout to this file, for parallel.layout; with --machine that of a "
                  "plan of the list");
  sub->add_option("--write-problem", arguments.problem_output,
                  "With --machine: write what is solved to find a layout, for --problem");
  sub->add_option("--choose", arguments.chosen,
                  "With --machine: the plan of the list that --output and --write-problem are of "
                  "(default: 1)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->type_name("N");
  auto* problem = sub->add_option("--problem", arguments.problem,
                                  "Solve this assignment problem instead: a JSON file of nodes "
                                  "and edges with their costs");
  sub->add_option("--solver", arguments.solver,
                  "With --problem: elimination, o3, o2, o2-once, ilp, ilp-tight or "
                  "exhaustive")
      ->needs(problem)
      ->capture_default_str();
  sub->callback([&] {
    if (arguments.config.files.empty() == arguments.problem.empty())
      throw CLI::ValidationError("plan", "give either CONFIG or --problem FILE");
    if (!arguments.problem.empty() &&
        (arguments.ranks || arguments.nodes || arguments.top || arguments.simulated ||
         !arguments.machine.empty() || !arguments.tokens.empty() || !arguments.explain.empty() ||
         !arguments.config.sets.empty() || !arguments.output.empty() ||
         !arguments.problem_output.empty() || arguments.chosen))
      throw CLI::ValidationError("--problem",
                                 "is solved alone; leave out all but --solver and --format");
    commands.chosen = [&] { commands.actions.plan(commands.plan); };
  });
}

void add_program(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("program", "Print the compiled step as text");
  add_config_options(*sub, commands.program.config);
  auto* name = sub->add_option("--program", commands.program.program,
                               "init, train, evaluate, prefill, decode, digest, or all")
                   ->capture_default_str();
  auto* rank = sub->add_option("--rank", commands.program.rank, "The rank whose program is printed")
                   ->check(not_below(0))
                   ->capture_default_str();
  auto* job = sub->add_flag("--job", commands.program.of_job,
                            "Print all programs of all ranks, those of like ranks once")
                  ->excludes(name)
                  ->excludes(rank);
  auto* after = sub->add_option("--after", commands.program.after,
                                "Print what this pass of the compiler has made, for the first rank")
                    ->check(one_of(pass_names(false)))
                    ->excludes(job)
                    ->excludes(rank);
  auto* without = sub->add_option("--without", commands.program.without,
                                  "Leave out this pass of the compiler; may be repeated")
                      ->check(one_of(pass_names(true)))
                      ->allow_extra_args(false);
  sub->add_flag("--specification", commands.program.is_of_specification,
                "Print what the job must compute: the step of all samples on one rank, from the "
                "model's graphs alone")
      ->excludes(name)
      ->excludes(rank)
      ->excludes(job)
      ->excludes(after)
      ->excludes(without);
  add_ranks_option(*sub, commands.program.ranks);
  sub->callback([&] { commands.chosen = [&] { commands.actions.program(commands.program); }; });
}

void add_verify(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand(
      "verify",
      "Prove the programs of all ranks free of races and deadlocks, and equal to the serial "
      "program");
  VerifyArguments& arguments = commands.verify;
  auto* config =
      sub->add_option("CONFIG", arguments.config.files, "YAML files, merged from left to right");
  sub->add_option("--set", arguments.config.sets,
                  "KEY=VALUE; overrides a key of the files, may be repeated")
      ->allow_extra_args(false);
  add_ranks_option(*sub, arguments.ranks);
  auto* text = sub->add_option("--text", arguments.program_text,
                               "Verify this program text instead of a configuration");
  auto* of = sub->add_option("--of", commands.verify_of,
                             "With --text: the configuration whose job this is; what it computes "
                             "is compared with that of the text")
                 ->needs(text)
                 ->excludes(config);
  auto* always = sub->add_flag_callback(
      "--equal", [&] { arguments.equal = ProveEqual::always; },
      "Compare with the serial program however long it takes");
  sub->add_flag_callback(
         "--no-equal", [&] { arguments.equal = ProveEqual::never; },
         "Prove the rules alone, and do not compare with the serial program")
      ->excludes(always)
      ->excludes(of);
  sub->callback([&, config, of, always] {
    if (arguments.config.files.empty() == arguments.program_text.empty())
      throw CLI::ValidationError("verify", "give either CONFIG or --text FILE");
    if (always->count() > 0 && config->count() == 0 && of->count() == 0)
      throw CLI::ValidationError("--equal", "give the configuration that a text is of by --of");
    if (of->count() > 0) arguments.config.files = commands.verify_of;
    commands.chosen = [&] { commands.actions.verify(commands.verify); };
  });
}

void add_simulate(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand(
      "simulate", "Say what the step takes on a machine that is not at hand, without running it");
  SimulateArguments& arguments = commands.simulate;
  sub->add_option("CONFIG", arguments.config.files, "YAML files, merged from left to right");
  add_set_option(*sub, arguments.config);
  sub->add_option("--machine", arguments.machine,
                  "A machine by name, or a file that describes one; without it: the names");
  add_ranks_option(*sub, arguments.ranks);
  sub->add_option("--text", arguments.program_text,
                  "Price the job of this text, as `program --job` prints, instead of a "
                  "configuration");
  sub->add_option("--trace", arguments.trace,
                  "Write the timeline of the step to this file, for `trace summary` and Perfetto");
  sub->add_option("--sweep", arguments.sweep,
                  "One line for each number of ranks, as ranks=64,128,256; parallel.data follows");
  sub->add_option("--format", commands.simulate_format, "text or json")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  sub->add_flag("--all-ranks", arguments.all_ranks,
                "Follow every rank, not one of each class of like ranks; --trace then has all");
  sub->add_flag("--verbose", arguments.is_verbose, "Say what the simulation itself took");
  sub->callback([&] {
    if (arguments.config.files.empty() == arguments.program_text.empty())
      throw CLI::ValidationError("simulate", "give either CONFIG or --text FILE");
    if (!arguments.program_text.empty() &&
        (arguments.ranks || !arguments.sweep.empty() || !arguments.config.sets.empty()))
      throw CLI::ValidationError("--text", "is a whole job; leave --ranks, --sweep and --set out");
    if (!arguments.sweep.empty() && (arguments.ranks || !arguments.trace.empty()))
      throw CLI::ValidationError("--sweep", "is of several jobs; leave --ranks and --trace out");
    arguments.is_json = commands.simulate_format == "json";
    commands.chosen = [&] { commands.actions.simulate(commands.simulate); };
  });
}

void add_machines(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("machines", "List the clusters that are known, or show one");
  MachinesArguments& arguments = commands.machines;
  sub->add_option("MACHINE", arguments.machine,
                  "A name of the list, or a file such as `bench machine` writes");
  sub->add_option("--format", arguments.format, "text, or json: all figures in bytes and seconds")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  sub->callback([&] { commands.chosen = [&] { commands.actions.machines(commands.machines); }; });
}

}  // namespace fourfold::command_line
