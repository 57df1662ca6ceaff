// Configurations that are made of another one: what it leaves open is stated, or a command asks for
// something else. Each is a new value; nobody changes a configuration that is there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace fourfold::config {

/// The planner chooses this where the grid, the stages or the layout are open.
struct GridChoice {
  plan::Grid grid;          // of each stage, or the first one
  std::int64_t stages = 1;  // 1: the model is not cut
  pipeline::Schedule schedule = pipeline::Schedule::one_f_one_b;
  std::vector<plan::Grid> meshes = {};    // by stage, where they differ
  std::vector<std::int64_t> layers = {};  // by stage then
  /// These two stand in place of the strategy `auto`: the one that counts, and the layout that was
  /// searched for.
  plan::Strategy strategy = plan::Strategy::axonn;
  std::optional<plan::GivenLayout> layout = std::nullopt;
};

/// The grid stands where an axis was open, the stages where they were, and the strategy and its
/// layout where that was searched for.
Config with_choice(const Config& config, const GridChoice& choice);
/// Counts an axis or stages that are open as 1, so that a plan can be tried before the planner
/// chooses.
Config with_least_grid(const Config& config);
/// The grid and the stages of a configuration as YAML, for other ranks. Requires that no axis is
/// open.
std::string grid_yaml(const Config& config);
/// The configuration with the grid and the stages of what grid_yaml made. Errors: InternalError for
/// another text.
Config with_grid_yaml(const Config& config, const std::string& yaml);
/// Another grid, of the same stages.
Config with_grid(const Config& config, const plan::Grid& grid);
/// A grid for each of so many stages, on hosts of so many ranks unless the configuration says
/// otherwise; 1: the model is not cut.
Config with_stages(const Config& config, const plan::Grid& grid, std::int64_t stages,
                   std::int64_t ranks_per_host);
/// A plan that is stated whole.
Config with_plan(const Config& config, const plan::PlanSpec& plan);
/// The layout of a file, or one that was searched for, in place of the strategy's.
Config with_layout(const Config& config, const plan::GivenLayout& layout);
/// Leaves the number of ranks of data open: it follows from the ranks of the job.
Config with_open_data(const Config& config);

Config with_model(const Config& config, const model::Spec& model);
/// A name or a file of a machine, in place of run.machine.
Config with_machine(const Config& config, const std::string& machine);
Config with_prompt(const Config& config, const std::string& prompt);

/// A launcher knows this of its ranks, and it counts where the configuration says nothing.
struct KnownRanks {
  std::optional<int> threads;            // of each
  std::optional<std::int64_t> per_host;  // where it is the same for all
};
Config with_ranks(const Config& config, const KnownRanks& ranks);

/// Forgets the number of threads, in which ranks on different hosts may differ.
Config without_threads(const Config& config);

}  // namespace fourfold::config
