#include "cli/bench.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/quantity.h"
#include "base/units.h"
#include "comm/launch.h"
#include "comm/threads.h"
#include "measure/reshard_table.h"
#include "reshard/paper_cases.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// Nothing that is measured takes as long.
constexpr double longest_s = 600;

measure::ReshardTask pair_of(const ReshardArguments& arguments) {
  for (const auto& [option, text] : {std::pair("--from", &arguments.from),
                                     {"--from-mesh", &arguments.from_mesh},
                                     {"--to", &arguments.to},
                                     {"--to-mesh", &arguments.to_mesh}})
    if (text->empty())
      throw UserError(ExitCode::bad_config,
                      format("a pair of meshes needs {} too; such as --from S0RR --from-mesh 2x4 "
                             "--to RRS0 --to-mesh 2x4 --shape 256,256,128",
                             option));
  if (arguments.shape.empty())
    throw UserError(ExitCode::bad_config, "a pair of meshes needs --shape, such as 256,256,128");
  return {"pair",
          Shape(arguments.shape),
          arguments.from,
          arguments.to,
          reshard::parse_mesh_shape(arguments.from_mesh),
          reshard::parse_mesh_shape(arguments.to_mesh)};
}

std::vector<measure::ReshardTask> tasks_of(const ReshardArguments& arguments) {
  const bool has_pair = !arguments.from.empty() || !arguments.from_mesh.empty() ||
                        !arguments.to.empty() || !arguments.to_mesh.empty() ||
                        !arguments.shape.empty();
  if (has_pair && !arguments.cases.empty())
    throw UserError(ExitCode::bad_config,
                    "--case is a pair of meshes already; leave --from, --to and --shape out");
  if (has_pair) return {pair_of(arguments)};
  constexpr std::int64_t least_bytes = 2048;
  const auto bytes = parse_bytes(arguments.bytes);
  if (!bytes || *bytes < least_bytes)
    throw UserError(ExitCode::bad_config, format("--bytes {}: expected a size of at least {} "
                                                 "bytes, such as 4MiB",
                                                 arguments.bytes, least_bytes));
  std::vector<measure::ReshardTask> tasks;
  for (const reshard::PaperCase& one : reshard::paper_cases())
    if (arguments.cases.empty() || std::ranges::count(arguments.cases, one.number) > 0)
      tasks.push_back({format("case {}", one.number), shape_of(one, *bytes), std::string(one.from),
                       std::string(one.to), one.from_mesh, one.to_mesh});
  return tasks;
}

/// Slower than all links, and fast enough for the times of a plan to add up.
constexpr double least_bytes_per_s = 1;
/// Longer than all latencies, and short enough for that.
constexpr double most_latency_s = 1e6;

double quantity(const char* option, const std::string& text, Quantity quantity) {
  const auto value = parse_quantity(text, quantity);
  const bool is_rate = quantity == Quantity::bytes_per_s;
  if (!value || (is_rate ? *value < least_bytes_per_s : *value > most_latency_s))
    throw UserError(ExitCode::bad_config,
                    format("{} '{}': expected {}, {}", option, text, quantity_in_words(quantity),
                           is_rate ? format("at least {} B/s", least_bytes_per_s)
                                   : format("at most {} s", most_latency_s)));
  return *value;
}

std::optional<std::int64_t> chunks_of(const std::string& text) {
  if (text == "auto") return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < 1 || value > reshard::most_chunks)
    throw UserError(ExitCode::bad_config, format("--chunks {}: expected auto, or a number from 1 "
                                                 "to {}",
                                                 text, reshard::most_chunks));
  return value;
}

reshard::ReshardOptions options_of(const ReshardArguments& arguments) {
  reshard::ReshardOptions options;
  options.chunks = chunks_of(arguments.chunks);
  options.links.between = {quantity("--latency", arguments.latency, Quantity::seconds),
                           quantity("--rate", arguments.rate, Quantity::bytes_per_s)};
  options.links.inside = {quantity("--inside-latency", arguments.inside_latency, Quantity::seconds),
                          quantity("--inside", arguments.inside, Quantity::bytes_per_s)};
  const auto ordering = reshard::parse_ordering(arguments.ordering);
  require(ordering.has_value(), "the command line knows the orderings");
  options.ordering = *ordering;
  return options;
}

std::vector<reshard::Strategy> strategies_of(const ReshardArguments& arguments) {
  std::vector<reshard::Strategy> strategies;
  for (const std::string_view name : reshard::strategy_names())
    if (arguments.strategies.empty() || std::ranges::count(arguments.strategies, name) > 0)
      strategies.push_back(reshard::parse_strategy(name).value());
  return strategies;
}

measure::ReshardRequest request_of(const BenchArguments& arguments) {
  const ReshardArguments& said = arguments.reshard;
  measure::ReshardRequest request;
  request.tasks = tasks_of(said);
  request.options = options_of(said);
  request.strategies = strategies_of(said);
  request.rate = said.rate;
  request.latency = said.latency;
  request.turns = said.is_free ? reshard::Turns::free : reshard::Turns::kept;
  request.seconds = arguments.seconds;
  request.is_json = arguments.format == "json";
  for (const measure::ReshardTask& task : request.tasks)  // what is wrong with one is said once
    reshard::place_pair(task.shape, task.from, task.from_mesh, task.to, task.to_mesh);
  return request;
}

void show(const std::string& text) {
  screen::print_text(text);
  std::fflush(stdout);
}

}  // namespace

void bench_reshard(const BenchArguments& arguments) {
  const measure::ReshardRequest request = request_of(arguments);
  if (arguments.reshard.is_plan) {
    measure::print_plans(request, show);
    return;
  }
  if (arguments.is_job) {
    comm::LaunchOptions launch;
    launch.watchdog_s = longest_s;
    comm::ProcessJob processes(arguments.launcher, launch);
    processes.run([&] { measure::measure_reshards(*processes.world(), request, show); });
    return;
  }
  const std::int64_t ranks = request.ranks();
  constexpr std::int64_t most_threads = 1024;
  if (ranks > most_threads)
    throw UserError(ExitCode::bad_config,
                    format("{} ranks are more than the {} that are threads of one process; look at "
                           "the plan with --plan, or start processes and say --job",
                           ranks, most_threads));
  comm::ThreadJob job(static_cast<std::size_t>(ranks));
  job.run([&](comm::World& world) { measure::measure_reshards(world, request, show); });
}

}  // namespace fourfold::cli
