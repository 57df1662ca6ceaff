#include "simulate/simulate.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/stopwatch.h"
#include "base/styled_text.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/settle_grid.h"
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
#include "trace/chrome_format.h"
#include "verify/verify_job.h"

namespace fourfold::cli {
namespace {

/// A job, and what its program does not say of it.
struct Priced {
  std::string name;  // of the run, or of the file
  program::Job job;
  std::optional<double> model_flops, hardware_flops;  // of a step, of all ranks
  std::int64_t items = 0;                             // of a step; 0: not known
  std::string_view unit;                              // of them
};

struct Result {
  simulate::Simulation simulation;
  simulate::Prediction prediction;
  double elapsed_s = 0;  // to simulate, from the compiled job on
};

machine::Cluster machine_of(const SimulateArguments& arguments) {
  if (!arguments.machine.empty()) return machine::load_cluster(arguments.machine);
  std::vector<std::string> names;
  for (const machine::KnownCluster& known : machine::known_clusters()) names.push_back(known.name);
  throw UserError(ExitCode::bad_config,
                  format("--machine says on what the step is to be priced; known are: {}; or give "
                         "the path of a file",
                         join(names, ", ")));
}

Priced priced(job::Job job) {
  const plan::Batching& b = job.plan.batching;
  const double model_flops =
      model::model_flops_per_step(job.config.model(), b.global_batch, b.length);
  const bool is_text = job.config.kind == model::Kind::gpt;
  Priced result{job.config.name,
                {},
                model_flops,
                model_flops,
                b.global_batch * b.length,
                is_text ? "tokens" : "pictures"};
  if (const auto again = job::recomputed_flops_per_step(job)) *result.hardware_flops += *again;
  result.job = std::move(job.programs);
  return result;
}

Priced from_config(const job::ConfigSource& source, std::optional<std::int64_t> ranks,
                   const std::string& machine, bool is_one_of_several) {
  config::Config config = job::load_config(source);
  job::resolve_model(config);
  if (is_one_of_several) config.plan.grid.data = std::nullopt;
  ranks = settle_open_grid(config, ranks, machine);
  return priced(
      job::make_job(std::move(config), job::Graphs::of_run, ranks, {}, job::Purpose::look));
}

Priced from_text(const std::string& path) {
  const std::string text = read_file(path, ExitCode::bad_config);
  if (!text.starts_with("job "))
    throw UserError(ExitCode::bad_config,
                    format("{}:1: does not hold a job, which begins with 'job'; print one with "
                           "`fourfold program CONFIG --job`",
                           path));
  Priced result{path, program::parse_job(text, path), {}, {}, 0, {}};
  if (const auto faults = verify::verify(result.job); !faults.empty())
    throw UserError(ExitCode::bad_config,
                    format("{}: {}: {}; `fourfold verify --text {}` lists all faults", path,
                           faults[0].rule, faults[0].message, path));
  return result;
}

Result run(const Priced& priced, const machine::Cluster& cluster, bool all_ranks) {
  const Stopwatch stopwatch;
  const auto follow = all_ranks ? simulate::Follow::all_ranks : simulate::Follow::automatic;
  Result result{simulate::simulate(priced.job, "train", cluster, follow), {}, 0};
  result.elapsed_s = stopwatch.seconds();
  result.prediction = simulate::predict(priced.job, result.simulation);
  return result;
}

/// Shares of what the devices do at best; none where the machine does not say that.
struct Shares {
  std::optional<double> mfu, hfu;
};
Shares shares_of(const Priced& priced, const Result& result, const machine::Cluster& cluster) {
  const simulate::Prediction& prediction = result.prediction;
  const auto peak =
      simulate::peak_flops_per_s(cluster, prediction.dtype, result.simulation.num_ranks);
  Shares shares;
  if (!peak || prediction.step_s <= 0) return shares;
  const double most = *peak * prediction.step_s;
  if (priced.model_flops) shares.mfu = *priced.model_flops / most;
  shares.hfu = priced.hardware_flops.value_or(prediction.flops) / most;
  return shares;
}

std::string percent(std::optional<double> share) {
  return share ? format("{:.1f} %", 100 * *share) : "not known";
}

double memory_of_rank(const machine::Cluster& cluster) {
  return cluster.device.memory_bytes / static_cast<double>(cluster.ranks_per_device);
}

bool fits(const Result& result, const machine::Cluster& cluster) {
  return static_cast<double>(result.prediction.peak_bytes) <= memory_of_rank(cluster);
}

std::string biggest_cost(const simulate::Prediction& prediction) {
  if (prediction.costs.empty()) return "nothing";
  const simulate::Cost& cost = prediction.costs[0];
  return format("{}{}, {:.1f} % of the step", cost.is_exposed ? "waiting for " : "", cost.what,
                100 * cost.seconds / prediction.step_s);
}

/// Instructions that were followed, of the ranks that stand for all.
std::int64_t followed(const Result& result) {
  std::int64_t count = 0;
  for (const simulate::SimulatedRank& rank : result.simulation.ranks)
    count += static_cast<std::int64_t>(rank.times.size());
  return count;
}

void print_screen(const Priced& priced, const Result& result, const machine::Cluster& cluster,
                  bool is_verbose) {
  const simulate::Prediction& prediction = result.prediction;
  const std::int64_t ranks = result.simulation.num_ranks;
  const Shares shares = shares_of(priced, result, cluster);
  std::string step = format_duration(prediction.step_s);
  if (priced.items > 0)
    step += format(", {} {}/s", format_count(static_cast<double>(priced.items) / prediction.step_s),
                   priced.unit);
  if (result.simulation.is_bound)
    step +=
        "; at most: groups of one axis lie differently on the machine, the slowest stands for "
        "all";
  Rows rows = {{"machine", format("{}: {}", cluster.name, cluster.title)},
               {"place", simulate::place_text(cluster, ranks)},
               {"job", format("{}, {}", priced.name, counted(ranks, "rank"))},
               {"step", step},
               {"most of it", biggest_cost(prediction)},
               {"exposed", format("{} of the step: exchanges that nothing hides",
                                  percent(prediction.exposed_s / prediction.step_s))},
               {"utilization", format("MFU {}, HFU {} of {} peak", percent(shares.mfu),
                                      percent(shares.hfu), to_string(prediction.dtype))},
               {"memory", format("{} of {} a rank{}", format_bytes(prediction.peak_bytes),
                                 format_bytes(static_cast<std::int64_t>(memory_of_rank(cluster))),
                                 fits(result, cluster) ? "" : ": does not fit")}};
  if (is_verbose) {
    const std::int64_t count = followed(result);
    rows.push_back(
        {"simulated",
         format("{} of {} ranks, {} instructions in {}: {:.0f} ns each",
                result.simulation.ranks.size(), format_grouped(ranks), format_grouped(count),
                format_duration(result.elapsed_s),
                1e9 * result.elapsed_s / static_cast<double>(std::max<std::int64_t>(count, 1)))});
  }
  screen::print("%s\n%s", without_styles(screen::to_text(rows, 100)).c_str(),
                simulate::to_text(prediction).c_str());
}

Json number(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

Json json_of(const Priced& priced, const Result& result, const machine::Cluster& cluster) {
  const Shares shares = shares_of(priced, result, cluster);
  const std::int64_t ranks = result.simulation.num_ranks;
  Json json = simulate::to_json(result.prediction);
  json.set("machine", cluster.name);
  json.set("place", simulate::place_text(cluster, ranks));
  json.set("job", priced.name);
  json.set("ranks", ranks);
  json.set("mfu", number(shares.mfu));
  json.set("hfu", number(shares.hfu));
  json.set("fits", fits(result, cluster));
  json.set("is_bound", result.simulation.is_bound);
  json.set("simulated",
           Json::object({{"ranks", result.simulation.ranks.size()},
                         {"instructions", followed(result)},
                         {"instructions_of_all_ranks", result.simulation.num_instructions},
                         {"elapsed_s", result.elapsed_s}}));
  return json;
}

void write_trace(const std::string& path, const Priced& priced, const Result& result,
                 const machine::Cluster& cluster) {
  write_file_atomic(path, trace::to_chrome_json(simulate::to_timeline(
                              priced.job, result.simulation, run::describe_rank,
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

std::string first_line(const std::string& text, std::size_t width) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() <= width ? line : line.substr(0, width - 3) + "...";
}

/// One row or object for each number of ranks; what cannot be has its reason.
void sweep(const SimulateArguments& arguments, const machine::Cluster& cluster) {
  const std::vector<std::int64_t> all = ranks_of(arguments.sweep);
  Json list = Json::array();
  if (!arguments.is_json) {
    screen::print("machine  %s: %s\n\n", cluster.name.c_str(), cluster.title.c_str());
    screen::print("%8s  %10s  %10s  %8s  %8s  %8s  %10s  %s\n", "ranks", "step", "items/s", "MFU",
                  "HFU", "exposed", "memory", "biggest cost");
  }
  for (const std::int64_t ranks : all) {
    try {
      const Priced priced = from_config(arguments.config, ranks, arguments.machine, true);
      const Result result = run(priced, cluster, arguments.all_ranks);
      if (arguments.is_json) {
        list.push(json_of(priced, result, cluster));
        continue;
      }
      const simulate::Prediction& prediction = result.prediction;
      const Shares shares = shares_of(priced, result, cluster);
      screen::print("%8s  %10s  %10s  %8s  %8s  %8s  %10s  %s\n", format_grouped(ranks).c_str(),
                    format_duration(prediction.step_s).c_str(),
                    format_count(static_cast<double>(priced.items) / prediction.step_s).c_str(),
                    percent(shares.mfu).c_str(), percent(shares.hfu).c_str(),
                    percent(prediction.exposed_s / prediction.step_s).c_str(),
                    format_bytes(prediction.peak_bytes).c_str(),
                    fits(result, cluster)
                        ? prediction.costs.empty() ? "" : prediction.costs[0].what.c_str()
                        : "does not fit");
    } catch (const UserError& error) {
      if (error.code() != ExitCode::does_not_fit) throw;
      if (arguments.is_json)
        list.push(Json::object({{"ranks", ranks}, {"error", error.what()}}));
      else
        screen::print("%8s  %s\n", format_grouped(ranks).c_str(),
                      first_line(error.what(), 90).c_str());
    }
  }
  if (arguments.is_json) screen::print("%s\n", list.dump().c_str());
}

}  // namespace

void simulate(const SimulateArguments& arguments) {
  const machine::Cluster cluster = machine_of(arguments);
  if (!arguments.sweep.empty()) return sweep(arguments, cluster);
  const Priced priced =
      arguments.program_text.empty()
          ? from_config(arguments.config, arguments.ranks, arguments.machine, false)
          : from_text(arguments.program_text);
  const Result result = run(priced, cluster, arguments.all_ranks);
  if (!arguments.trace.empty()) write_trace(arguments.trace, priced, result, cluster);
  if (arguments.is_json)
    screen::print("%s\n", json_of(priced, result, cluster).dump().c_str());
  else
    print_screen(priced, result, cluster, arguments.is_verbose);
}

}  // namespace fourfold::cli
