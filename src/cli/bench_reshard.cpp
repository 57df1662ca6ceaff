#include "cli/bench_reshard.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/text.h"
#include "base/units.h"
#include "comm/launch.h"
#include "comm/threads.h"
#include "measure/reshard_bench.h"
#include "reshard/paper_cases.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// Nothing that is measured takes as long.
constexpr double longest_s = 600;

/// A tensor to move, before anybody has said on which ranks.
struct Task {
  std::string name;
  Shape shape;
  std::string from, to;
  reshard::MeshShape from_mesh, to_mesh;

  std::int64_t ranks() const { return from_mesh.ranks() + to_mesh.ranks(); }
};

Task pair_of(const ReshardArguments& arguments) {
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

std::vector<Task> tasks_of(const ReshardArguments& arguments) {
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
  std::vector<Task> tasks;
  for (const reshard::PaperCase& one : reshard::paper_cases())
    if (arguments.cases.empty() || std::ranges::count(arguments.cases, one.number) > 0)
      tasks.push_back({format("case {}", one.number), shape_of(one, *bytes), std::string(one.from),
                       std::string(one.to), one.from_mesh, one.to_mesh});
  return tasks;
}

double quantity(const char* option, const std::string& text, Quantity quantity) {
  const auto value = parse_quantity(text, quantity);
  if (!value || (quantity == Quantity::bytes_per_s && *value == 0))
    throw UserError(ExitCode::bad_config,
                    format("{} '{}': expected {}", option, text, quantity_in_words(quantity)));
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
  // A message within a host waits for a thread to wake, as one between rank threads does.
  constexpr double inside_latency_s = 5e-6;
  options.links.inside = {inside_latency_s,
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

/// Each host's ranks, hosts in the order of their first rank.
using Hosts = std::vector<std::vector<Rank>>;

/// All ranks call together.
Hosts hosts_of(comm::World& world) {
  Hosts hosts;
  std::map<std::string, std::size_t> known;
  const std::vector<std::string> names = world.all_gather(host_facts().name);
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto [at, is_new] = known.emplace(names[rank], hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[at->second].emplace_back(rank);
  }
  return hosts;
}

/// Rows of a mesh on one host after another.
Ranks ranks_of(const Task& task, reshard::MeshShape mesh, const Hosts& hosts,
               std::size_t first_host) {
  Ranks ranks;
  for (std::int64_t row = 0; row < mesh.rows; ++row) {
    const std::size_t host = first_host + static_cast<std::size_t>(row);
    const auto columns = static_cast<std::size_t>(mesh.columns);
    if (host >= hosts.size() || hosts[host].size() < columns)
      throw UserError(
          ExitCode::bad_config,
          format("{} needs {} hosts, of {} and {} ranks, as rows of its meshes; this job has {} of "
                 "{}: start it with more, or on one host with {} ranks",
                 task.name, task.from_mesh.rows + task.to_mesh.rows, task.from_mesh.columns,
                 task.to_mesh.columns, counted(static_cast<std::int64_t>(hosts.size()), "host"),
                 hosts.front().size(), task.ranks()));
    for (std::size_t column = 0; column < columns; ++column) ranks.push_back(hosts[host][column]);
  }
  return ranks;
}

/// On the hosts of a job, or where all ranks are on one, as if each row of a mesh were a host.
reshard::MeshPair place(const Task& task, const Hosts& hosts) {
  if (hosts.size() == 1) {
    reshard::MeshPair pair =
        reshard::place_pair(task.shape, task.from, task.from_mesh, task.to, task.to_mesh);
    if (pair.host_of.size() > hosts[0].size())
      throw UserError(ExitCode::bad_config, format("{} needs {} ranks, and {} were started",
                                                   task.name, task.ranks(), hosts[0].size()));
    pair.host_of.resize(hosts[0].size());
    return pair;
  }
  const auto rows = static_cast<std::size_t>(task.from_mesh.rows);
  reshard::MeshPair pair{
      placement_of(task.shape, task.from, task.from_mesh, ranks_of(task, task.from_mesh, hosts, 0)),
      placement_of(task.shape, task.to, task.to_mesh, ranks_of(task, task.to_mesh, hosts, rows)),
      {}};
  std::size_t ranks = 0;
  for (const std::vector<Rank>& host : hosts) ranks += host.size();
  pair.host_of.resize(ranks);
  for (std::size_t host = 0; host < hosts.size(); ++host)
    for (const Rank rank : hosts[host]) pair.host_of[rank.index()] = reshard::HostId(host);
  return pair;
}

std::int64_t most_chunks_of(const reshard::ReshardPlan& plan) {
  std::int64_t most = 1;
  for (const reshard::Transfer& transfer : plan.transfers) most = std::max(most, transfer.chunks);
  return most;
}

struct Result {
  const Task& task;
  const reshard::ReshardPlan& plan;
  const measure::ReshardTimes& times;

  bool has_elements() const { return plan.strategy != reshard::Strategy::signal; }
};

std::string header() {
  return format("{:<7} {:<18} {:>5} {:>6} {:>11} {:>11} {:>11} {:>11} {:>14} {:>14}  {}\n", "",
                "strategy", "tasks", "chunks", "bound ms", "planned ms", "best ms", "median ms",
                "bytes planned", "bytes counted", "elements");
}

std::string line_of(const Result& result) {
  const reshard::ReshardPlan& plan = result.plan;
  std::string elements = "none sent";
  if (result.has_elements())
    elements = result.times.wrong_elements == 0
                   ? "all right"
                   : format("{} WRONG", format_grouped(result.times.wrong_elements));
  return format(
      "{:<7} {:<18} {:>5} {:>6} {:>11.3f} {:>11.3f} {:>11.3f} {:>11.3f} {:>14} {:>14}  {}\n",
      result.task.name, to_string(plan.strategy), plan.num_unit_tasks, most_chunks_of(plan),
      1e3 * plan.lower_bound_s, 1e3 * plan.makespan_s, 1e3 * result.times.timing.best_s,
      1e3 * result.times.timing.median_s, plan.bytes_between_hosts,
      result.times.bytes_between_hosts, elements);
}

Json json_of(const Result& result) {
  const Task& task = result.task;
  const reshard::ReshardPlan& plan = result.plan;
  const auto mesh = [](reshard::MeshShape shape) {
    return format("{}x{}", shape.rows, shape.columns);
  };
  return Json::object()
      .set("name", task.name)
      .set("shape", Json::array_of(task.shape))
      .set("from", task.from)
      .set("from_mesh", mesh(task.from_mesh))
      .set("to", task.to)
      .set("to_mesh", mesh(task.to_mesh))
      .set("strategy", to_string(plan.strategy))
      .set("ordering", to_string(plan.ordering))
      .set("unit_tasks", static_cast<std::int64_t>(plan.num_unit_tasks))
      .set("chunks", most_chunks_of(plan))
      .set("lower_bound_s", plan.lower_bound_s)
      .set("planned_s", plan.makespan_s)
      .set("best_s", result.times.timing.best_s)
      .set("median_s", result.times.timing.median_s)
      .set("mean_s", result.times.timing.mean_s)
      .set("bytes_planned", plan.bytes_between_hosts)
      .set("bytes_counted", result.times.bytes_between_hosts)
      .set("wrong_elements", result.has_elements() ? Json(result.times.wrong_elements) : Json());
}

/// What one rank does.
void measure_rank(const BenchArguments& arguments, const std::vector<Task>& tasks,
                  comm::World& world) {
  const bool is_first = world.rank().index() == 0, is_json = arguments.format == "json";
  const Hosts hosts = hosts_of(world);
  reshard::ReshardOptions options = options_of(arguments.reshard);
  if (is_first && !is_json)
    screen::print_text(
        format("{}, of which {}; a port of {} and {} a message in the plans\n\n{}",
               counted(static_cast<std::int64_t>(world.size()), "rank"),
               hosts.size() > 1 ? counted(static_cast<std::int64_t>(hosts.size()), "host") + " are"
                                : "each row of a mesh is taken for a host",
               arguments.reshard.rate, arguments.reshard.latency, header()));
  Json results = Json::array();
  std::int64_t wrong = 0;
  for (const Task& task : tasks) {
    const reshard::MeshPair pair = place(task, hosts);
    for (const reshard::Strategy strategy : strategies_of(arguments.reshard)) {
      options.strategy = strategy;
      const reshard::ReshardPlan plan = make_plan(pair.from, pair.to, pair.host_of, options);
      const measure::ReshardTimes times = measure::measure_reshard(
          world, pair.from, pair.to, pair.host_of, plan,
          arguments.reshard.is_free ? reshard::Turns::free : reshard::Turns::kept,
          arguments.seconds);
      const Result result{task, plan, times};
      if (result.has_elements()) wrong += times.wrong_elements;
      if (!is_first) continue;
      if (is_json)
        results.push(json_of(result));
      else
        screen::print_text(line_of(result));
      std::fflush(stdout);
    }
  }
  if (is_first && is_json)
    screen::print_text(Json::object()
                           .set("ranks", static_cast<std::int64_t>(world.size()))
                           .set("hosts", static_cast<std::int64_t>(hosts.size()))
                           .set("results", results)
                           .dump() +
                       "\n");
  require(wrong == 0, "every element of a tensor that is moved arrives");
}

void print_plans(const ReshardArguments& arguments, const std::vector<Task>& tasks) {
  reshard::ReshardOptions options = options_of(arguments);
  for (const Task& task : tasks)
    for (const reshard::Strategy strategy : strategies_of(arguments)) {
      options.strategy = strategy;
      const reshard::MeshPair pair =
          reshard::place_pair(task.shape, task.from, task.from_mesh, task.to, task.to_mesh);
      screen::print_text(format("{}: {}", task.name,
                                to_text(make_plan(pair.from, pair.to, pair.host_of, options))));
    }
}

}  // namespace

void bench_reshard(const BenchArguments& arguments) {
  const std::vector<Task> tasks = tasks_of(arguments.reshard);
  options_of(arguments.reshard);  // what is wrong with them is said once
  std::int64_t ranks = 0;
  for (const Task& task : tasks) {
    reshard::place_pair(task.shape, task.from, task.from_mesh, task.to, task.to_mesh);
    ranks = std::max(ranks, task.ranks());
  }
  if (arguments.reshard.is_plan) {
    print_plans(arguments.reshard, tasks);
    return;
  }
  if (arguments.is_job) {
    comm::LaunchOptions launch;
    launch.watchdog_s = longest_s;
    comm::ProcessJob processes(arguments.launcher, launch);
    processes.run([&] { measure_rank(arguments, tasks, processes.world()); });
    return;
  }
  constexpr std::int64_t most_threads = 1024;
  if (ranks > most_threads)
    throw UserError(ExitCode::bad_config,
                    format("{} ranks are more than the {} that are threads of one process; look at "
                           "the plan with --plan, or start processes and say --job",
                           ranks, most_threads));
  comm::ThreadJob job(static_cast<std::size_t>(ranks));
  job.run([&](comm::World& world) { measure_rank(arguments, tasks, world); });
}

}  // namespace fourfold::cli
