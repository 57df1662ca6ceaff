#include "simulate/simulate.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/stopwatch.h"
#include "base/styled_text.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/prepare_to_look.h"
#include "cli/shared_options.h"
#include "config/changes.h"
#include "job/config_source.h"
#include "job/job.h"
#include "job/recomputed_flops.h"
#include "machine/known_clusters.h"
#include "model/model.h"
#include "program/text.h"
#include "run/describe.h"
#include "screen/print.h"
#include "screen/rows.h"
#include "simulate/prediction.h"
#include "simulate/priced_step.h"
#include "trace/chrome_format.h"
#include "verify/verify_job.h"

namespace fourfold::cli {
namespace {

struct SimulateArguments {
  job::ConfigSource config;
  std::optional<std::int64_t> ranks;
  std::string machine, program_text, trace, sweep, format = "text";
  bool all_ranks = false, is_verbose = false;

  bool is_json() const { return format == "json"; }
};

void list_options(OptionList& options, SimulateArguments& given) {
  options.add("CONFIG", given.config.files, yaml_files);
  add_set_option(options, given.config);
  options.add("--machine", given.machine,
              "A machine by name, or a file that describes one; without it: the names",
              {.offers = machine_names});
  add_ranks_option(options, given.ranks);
  options.add("--text", given.program_text,
              "Price the job of this text, as `program --job` prints, instead of a configuration");
  options.add("--trace", given.trace,
              "Write the timeline of the step to this file, for `trace summary` and Perfetto");
  options.add("--sweep", given.sweep,
              "One line for each number of ranks, as ranks=64,128,256; parallel.data follows");
  add_format_option(options, given.format, "text or json");
  options.add("--all-ranks", given.all_ranks,
              "Follow every rank, not one of each class of like ranks; --trace then has all");
  options.add("--verbose", given.is_verbose, "Say what the simulation itself took");
}

std::string fault_of(const SimulateArguments& arguments) {
  if (arguments.config.files.empty() == arguments.program_text.empty())
    return "simulate: give either CONFIG or --text FILE";
  if (!arguments.program_text.empty() &&
      (arguments.ranks || !arguments.sweep.empty() || !arguments.config.sets.empty()))
    return "--text: is a whole job; leave --ranks, --sweep and --set out";
  if (!arguments.sweep.empty() && (arguments.ranks || !arguments.trace.empty()))
    return "--sweep: is of several jobs; leave --ranks and --trace out";
  return {};
}

/// A job, and its step on a machine.
struct Priced {
  program::Job job;
  simulate::PricedStep step;
};

machine::Cluster machine_of(const SimulateArguments& arguments) {
  if (!arguments.machine.empty()) return machine::load_cluster(arguments.machine);
  throw UserError(ExitCode::bad_config,
                  format("--machine says on what the step is to be priced; known are: {}; or give "
                         "the path of a file",
                         join(machine_names(), ", ")));
}

Priced priced(job::Job job) {
  const plan::Batching& b = job.plan.batching;
  const double model_flops =
      model::model_flops_per_step(job.settled.model(), b.global_batch, b.length);
  Priced result{{},
                {.name = job.settled.config().name,
                 .model_flops = model_flops,
                 .hardware_flops = model_flops,
                 .items = b.global_batch * b.length,
                 .unit = model::items_word(job.settled.config().family().reads)}};
  if (const auto again = job::recomputed_flops_per_step(job)) *result.step.hardware_flops += *again;
  result.job = std::move(job.programs);
  return result;
}

Priced from_config(const job::ConfigSource& source, std::optional<std::int64_t> ranks,
                   const std::string& machine, bool is_one_of_several) {
  const config::Config config = job::load_config(source);
  return priced(prepare_to_look(is_one_of_several ? config::with_open_data(config) : config, ranks,
                                {}, machine));
}

Priced from_text(const std::string& path) {
  const std::string text = read_file(path, ExitCode::bad_config);
  if (!text.starts_with("job "))
    throw UserError(ExitCode::bad_config,
                    format("{}:1: does not hold a job, which begins with 'job'; print one with "
                           "`fourfold program CONFIG --job`",
                           path));
  Priced result{program::parse_job(text, path), {.name = path}};
  if (const auto faults = verify::verify(result.job); !faults.empty())
    throw UserError(ExitCode::bad_config,
                    format("{}: {}: {}; `fourfold verify --text {}` lists all faults", path,
                           faults[0].rule, faults[0].message, path));
  return result;
}

void run(Priced& priced, const machine::Cluster& cluster, bool all_ranks) {
  const Stopwatch stopwatch;
  const auto follow = all_ranks ? simulate::Follow::all_ranks : simulate::Follow::automatic;
  priced.step.simulation = simulate::simulate(priced.job, op::ProgramKind::train, cluster, follow);
  priced.step.elapsed_s = stopwatch.seconds();
  priced.step.prediction = simulate::predict(priced.job, priced.step.simulation);
  priced.step.by_analogy = simulate::priced_by_analogy(priced.job, priced.step.simulation, cluster);
}

void print_screen(const simulate::PricedStep& step, const machine::Cluster& cluster,
                  bool is_verbose) {
  Rows rows = simulate::step_rows(step, cluster);
  if (is_verbose) rows.push_back(simulate::simulation_row(step));
  screen::print("%s\n%s", without_styles(screen::to_text(rows, 100)).c_str(),
                simulate::to_text(step.prediction).c_str());
}

void write_trace(const std::string& path, const Priced& priced, const machine::Cluster& cluster) {
  write_file_atomic(path, trace::to_chrome_json(simulate::to_timeline(
                              priced.job, priced.step.simulation, run::describe_rank,
                              [&](Rank rank) { return simulate::host_text(cluster, rank); })));
}

/// "ranks=64,128": the numbers.
std::vector<std::int64_t> ranks_of(const std::string& sweep) {
  const auto fail = [&]() -> std::vector<std::int64_t> {
    throw UserError(
        ExitCode::bad_config,
        format("--sweep is '{}'; expected numbers of ranks, as ranks=64,128,256", sweep));
  };
  constexpr std::string_view key = "ranks=";
  if (!sweep.starts_with(key)) return fail();
  std::vector<std::int64_t> list;
  for (const std::string& word : split(sweep.substr(key.size()), ',')) {
    const bool is_number = !word.empty() && word.size() < 9 &&
                           word.find_first_not_of("0123456789") == word.npos && word != "0";
    if (!is_number) return fail();
    list.push_back(std::stoll(word));
  }
  return list;
}

/// One row or object for each number of ranks; what cannot be has its reason.
void sweep(const SimulateArguments& arguments, const machine::Cluster& cluster) {
  const std::vector<std::int64_t> all = ranks_of(arguments.sweep);
  Json list = Json::array();
  if (!arguments.is_json()) screen::print("%s", simulate::sweep_header(cluster).c_str());
  for (const std::int64_t ranks : all) {
    try {
      Priced priced = from_config(arguments.config, ranks, arguments.machine, true);
      run(priced, cluster, arguments.all_ranks);
      if (arguments.is_json())
        list.push(simulate::to_json(priced.step, cluster));
      else
        screen::print("%s", simulate::sweep_line(priced.step, cluster).c_str());
    } catch (const UserError& error) {
      if (error.code() != ExitCode::does_not_fit) throw;
      if (arguments.is_json())
        list.push(Json::object({{"ranks", ranks}, {"error", error.what()}}));
      else
        screen::print("%s", simulate::sweep_refusal(ranks, error.what()).c_str());
    }
  }
  if (arguments.is_json()) screen::print("%s\n", list.dump().c_str());
}

void simulate(const SimulateArguments& arguments) {
  const machine::Cluster cluster = machine_of(arguments);
  if (!arguments.sweep.empty()) return sweep(arguments, cluster);
  Priced priced = arguments.program_text.empty()
                      ? from_config(arguments.config, arguments.ranks, arguments.machine, false)
                      : from_text(arguments.program_text);
  run(priced, cluster, arguments.all_ranks);
  if (!arguments.trace.empty()) write_trace(arguments.trace, priced, cluster);
  if (arguments.is_json())
    screen::print("%s\n", simulate::to_json(priced.step, cluster).dump().c_str());
  else
    print_screen(priced.step, cluster, arguments.is_verbose);
}

}  // namespace

void add_simulate(Commands& commands) {
  commands.add({"simulate", After{"verify"},
                "Say what the step takes on a machine that is not at hand, without running it",
                "simulate configs/paper/gpt-80b.yaml --machine perlmutter-40gb"},
               list_options, simulate, fault_of);
}

}  // namespace fourfold::cli
