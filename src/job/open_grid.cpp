#include "job/open_grid.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/text.h"
#include "base/units.h"
#include "base/yaml.h"
#include "job/device.h"
#include "job/job.h"
#include "machine/known_clusters.h"
#include "measure/cuda_parts.h"
#include "plan/make_mesh.h"
#include "rundir/run_files.h"
#include "search/explain.h"

namespace fourfold::job {
namespace {

constexpr const char* any_machine = "auto";
constexpr const char* host_without_gpus = "two-core-cpu";
constexpr const char* host_with_gpus = "workstation";

/// Ten gigabits a second, and what a message through the kernel takes: an estimate of what joins
/// hosts of which nothing is known.
constexpr double network_bytes_per_s = 1.25e9, network_latency_s = 30e-6;

/// The known machine of a device by name, or the one of any GPU.
machine::Cluster with_device(const std::string& name) {
  for (const machine::KnownCluster& known : machine::known_clusters())
    if (machine::Cluster cluster = machine::load_cluster(known.name); cluster.device.name == name)
      return cluster;
  return machine::load_cluster(host_with_gpus);
}

/// What is wrong with its name or its file is said with the place where it was named.
machine::Cluster named_machine(const config::Config& config) {
  try {
    return machine::load_cluster(config.machine);
  } catch (const UserError& error) {
    const config::Origin* origin = config.origins.find("run.machine");
    if (origin == nullptr || origin->value != yaml_quoted(config.machine)) throw;
    throw UserError(error.code(),
                    format("run.machine (set by {}): {}", origin->place, error.what()));
  }
}

/// As many devices on a host as it has ranks there, and as many hosts.
void resize(machine::Cluster& cluster, const RanksThere& there) {
  machine::Level host = cluster.levels.at(0);
  host.name = "host";
  host.units = there.of_host;
  host.pairs.clear();
  cluster.levels = {host};
  cluster.levels_of_node = 1;
  cluster.groups.clear();
  cluster.ranks_per_device = 1;
  if (there.ranks > there.of_host)
    cluster.levels.push_back({.name = "network",
                              .units = there.ranks / there.of_host,
                              .latency_s = network_latency_s,
                              .link_bytes_per_s = network_bytes_per_s,
                              .port_bytes_per_s = network_bytes_per_s,
                              .group_bytes_per_s = 0,
                              .pairs = {}});
}

/// Where a run keeps the layout that was searched for.
std::string layout_file(const config::Config& config) {
  return join_path(config.dir, rundir::RunFiles::layout);
}

/// A device is as many cores as a rank has.
void share_host(machine::Cluster& cluster, const RanksThere& there) {
  const HostFacts host = host_facts();
  const auto of_host = static_cast<double>(there.of_host);
  const int within = cores_within(static_cast<std::size_t>(host.cores_online), host.cpu_limit);
  const double cores = std::max(1.0, static_cast<double>(within) / of_host);
  for (machine::ComputeRate& rate : cluster.device.rates) rate.flops_per_s *= cores;
  cluster.device.memory_bytes =
      static_cast<double>(
          std::min(host.memory_bytes, host.memory_limit_bytes.value_or(host.memory_bytes))) /
      of_host;
}

}  // namespace

RanksThere ranks_of_this_host(const config::Config& config) {
  if (!config.open_axes.are_planned()) {
    const std::int64_t stated = plan::num_ranks(config.plan.grid);
    return {stated, stated};
  }
  const std::int64_t ranks =
      choose_device(config, 1) == Device::cuda ? 1 : std::int64_t{num_usable_cores()};
  return {ranks, ranks};
}

bool names_machine(const config::Config& config) {
  return config.machine != any_machine;
}

ChosenMachine machine_of(const config::Config& config, const RanksThere& there) {
  if (names_machine(config)) {
    machine::Cluster cluster = named_machine(config);
    std::string text = cluster.name;
    return {std::move(cluster), std::move(text)};
  }
  const machine::CudaFacts facts = measure::cuda_facts();
  const bool has_gpus = choose_device(config, there.ranks) == Device::cuda;
  machine::Cluster cluster =
      has_gpus ? with_device(facts.devices.at(0).name) : machine::load_cluster(host_without_gpus);
  std::string text = format(
      "this host, taken for one with the rates of {} (run.machine names "
      "another)",
      cluster.name);
  resize(cluster, there);
  if (has_gpus)
    cluster.device.memory_bytes = static_cast<double>(facts.devices.at(0).memory_bytes);
  else
    share_host(cluster, there);
  cluster.name = "this host";
  return {std::move(cluster), std::move(text)};
}

ChosenGrid choose_grid(const config::Config& config, std::int64_t ranks,
                       const ChosenMachine& machine) {
  require(config.leaves_plan_open(), "a plan is chosen where something of it is left open");
  Ranking ranking = rank_plans(
      config, machine.cluster,
      {.ranks = ranks, .nodes = {}, .simulated = grids_simulated, .keeps_what_is_set = true});
  const search::PricedPlan& first = ranking.answer.plans.front();
  const auto fitting = static_cast<std::int64_t>(ranking.answer.plans.size());
  const plan::PipelineSpec& pipeline = first.spec.pipeline;
  const bool differ = !pipeline.grids.empty();
  std::optional<plan::GivenLayout> layout = first.spec.layout;
  if (layout) layout->name = layout_file(config);
  return {
      {first.spec.grid, pipeline.stages, pipeline.schedule, pipeline.grids,
       differ ? pipeline.layers : std::vector<std::int64_t>(), first.spec.strategy,
       std::move(layout)},
      format("{}, order {}: the fastest of {} for {} on {}, {} a step",
             search::shape_text(first.spec), join(first.spec.grid.order, " "),
             counted(fitting, config.plan.strategy == plan::Strategy::searched ? "plan" : "grid"),
             counted(ranks, "rank"), machine.text, format_duration(first.seconds())),
      std::move(ranking)};
}

namespace {

/// True if what an earlier start did is what the configuration's strategy may have chosen; a
/// layout that was searched for is still there.
bool has_strategy_set(const config::Config& config, const config::Config& earlier) {
  using enum plan::Strategy;
  if (config.plan.strategy != searched) return earlier.plan.strategy == config.plan.strategy;
  if (earlier.plan.strategy == axonn) return earlier.layout.empty();
  return earlier.plan.strategy == searched && !earlier.layout.empty() &&
         file_exists(earlier.layout);
}

}  // namespace

std::optional<ChosenGrid> kept_grid(const config::Config& config, const config::Config& earlier,
                                    std::int64_t ranks) {
  const plan::Grid& grid = earlier.plan.grid;
  const plan::PipelineSpec pipeline = earlier.plan_spec().pipeline;
  const bool has_stages_set =
      config.open_axes.stages || pipeline.stages == config.plan.pipeline.stages;
  const std::vector<plan::Grid> meshes =
      pipeline.grids.empty()
          ? std::vector<plan::Grid>(static_cast<std::size_t>(pipeline.stages), grid)
          : pipeline.grids;
  std::int64_t had = 0;
  for (const plan::Grid& mesh : meshes) had += plan::num_ranks(mesh);
  const bool have_sizes_set = std::ranges::all_of(
      meshes, [&](const plan::Grid& mesh) { return has_sizes_set(config, mesh); });
  if (earlier.open_axes != config::OpenAxes{} || had != ranks || !have_sizes_set ||
      !has_stages_set || !has_strategy_set(config, earlier))
    return std::nullopt;
  std::optional<plan::GivenLayout> layout;
  if (earlier.plan.strategy == plan::Strategy::searched)
    layout = {earlier.layout, read_file(earlier.layout)};
  return ChosenGrid{{grid, pipeline.stages, pipeline.schedule, pipeline.grids,
                     pipeline.grids.empty() ? std::vector<std::int64_t>() : pipeline.layers,
                     earlier.plan.strategy, std::move(layout)},
                    format("{}, order {}: kept from the run's earlier start",
                           search::shape_text(earlier.plan_spec()), join(grid.order, " ")),
                    {}};
}

}  // namespace fourfold::job
