#include "measure/reshard_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "measure/reshard_bench.h"

namespace fourfold::measure {
namespace {

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
Ranks ranks_of(const ReshardTask& task, reshard::MeshShape mesh, const Hosts& hosts,
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
reshard::MeshPair place(const ReshardTask& task, const Hosts& hosts) {
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

struct MovedTask {
  const ReshardTask& task;
  const reshard::ReshardPlan& plan;
  const ReshardTimes& times;

  bool has_elements() const { return plan.strategy != reshard::Strategy::signal; }
};

std::string moves_header() {
  return format("{:<7} {:<18} {:>5} {:>6} {:>11} {:>11} {:>11} {:>11} {:>14} {:>14}  {}\n", "",
                "strategy", "tasks", "chunks", "bound ms", "planned ms", "best ms", "median ms",
                "bytes planned", "bytes counted", "elements");
}

std::string line_of(const MovedTask& result) {
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

/// What is to be moved, and what the plan says of all of it.
Json json_of(const ReshardTask& task, const reshard::ReshardPlan& plan) {
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
      .set("bytes_planned", plan.bytes_between_hosts);
}

Json json_of(const MovedTask& result) {
  return json_of(result.task, result.plan)
      .set("best_s", result.times.timing.best_s)
      .set("median_s", result.times.timing.median_s)
      .set("mean_s", result.times.timing.mean_s)
      .set("bytes_counted", result.times.bytes_between_hosts)
      .set("wrong_elements", result.has_elements() ? Json(result.times.wrong_elements) : Json());
}

Json json_of(const reshard::Box& box) {
  Json ranges = Json::array();
  for (const reshard::Range& range : box)
    ranges.push(Json::array_of(std::array{range.begin, range.end}));
  return ranges;
}

Json json_of(const reshard::Transfer& transfer) {
  Json groups = Json::array();
  for (const std::vector<Rank>& group : transfer.groups) {
    Json members = Json::array();
    for (const Rank rank : group) members.push(static_cast<std::int64_t>(rank.index()));
    groups.push(members);
  }
  return Json::object()
      .set("box", json_of(transfer.box))
      .set("sender", static_cast<std::int64_t>(transfer.sender.index()))
      .set("receivers", groups)
      .set("chunks", transfer.chunks)
      .set("inside_its_host", transfer.is_local)
      .set("start_s", transfer.start_s)
      .set("seconds", transfer.seconds);
}

/// All that the plan's text says.
Json json_of_plan(const ReshardTask& task, const reshard::ReshardPlan& plan) {
  Json transfers = Json::array(), copies = Json::array();
  for (const reshard::Transfer& transfer : plan.transfers) transfers.push(json_of(transfer));
  for (const reshard::LocalCopy& copy : plan.copies)
    copies.push(Json::object()
                    .set("box", json_of(copy.box))
                    .set("rank", static_cast<std::int64_t>(copy.rank.index())));
  return json_of(task, plan)
      .set("element_bytes", plan.element_bytes)
      .set("transfers", transfers)
      .set("copies", copies);
}

}  // namespace

std::int64_t ReshardRequest::ranks() const {
  std::int64_t most = 0;
  for (const ReshardTask& task : tasks) most = std::max(most, task.ranks());
  return most;
}

void measure_reshards(comm::World& world, const ReshardRequest& request, const Print& print) {
  const bool is_first = world.rank().index() == 0;
  const Hosts hosts = hosts_of(world);
  reshard::ReshardOptions options = request.options;
  if (is_first && !request.is_json)
    print(format("{}, of which {}; a port of {} and {} a message in the plans\n\n{}",
                 counted(static_cast<std::int64_t>(world.size()), "rank"),
                 hosts.size() > 1
                     ? counted(static_cast<std::int64_t>(hosts.size()), "host") + " are"
                     : "each row of a mesh is taken for a host",
                 request.rate, request.latency, moves_header()));
  Json results = Json::array();
  std::int64_t wrong = 0;
  for (const ReshardTask& task : request.tasks) {
    const reshard::MeshPair pair = place(task, hosts);
    for (const reshard::Strategy strategy : request.strategies) {
      options.strategy = strategy;
      const reshard::ReshardPlan plan = make_plan(pair.from, pair.to, pair.host_of, options);
      const ReshardTimes times = measure_reshard(world, pair.from, pair.to, pair.host_of, plan,
                                                 request.turns, request.seconds);
      const MovedTask result{task, plan, times};
      if (result.has_elements()) wrong += times.wrong_elements;
      if (!is_first) continue;
      if (request.is_json)
        results.push(json_of(result));
      else
        print(line_of(result));
    }
  }
  if (is_first && request.is_json)
    print(Json::object()
              .set("ranks", static_cast<std::int64_t>(world.size()))
              .set("hosts", static_cast<std::int64_t>(hosts.size()))
              .set("results", results)
              .dump() +
          "\n");
  require(wrong == 0, "every element of a tensor that is moved arrives");
}

void print_plans(const ReshardRequest& request, const Print& print) {
  reshard::ReshardOptions options = request.options;
  Json plans = Json::array();
  for (const ReshardTask& task : request.tasks)
    for (const reshard::Strategy strategy : request.strategies) {
      options.strategy = strategy;
      const reshard::MeshPair pair =
          reshard::place_pair(task.shape, task.from, task.from_mesh, task.to, task.to_mesh);
      const reshard::ReshardPlan plan = make_plan(pair.from, pair.to, pair.host_of, options);
      if (request.is_json)
        plans.push(json_of_plan(task, plan));
      else
        print(format("{}: {}", task.name, to_text(plan)));
    }
  if (request.is_json) print(Json::object().set("plans", plans).dump() + "\n");
}

}  // namespace fourfold::measure
