#include "config/changes.h"

#include <array>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "config/print.h"
#include "config/value.h"

namespace fourfold::config {
namespace {

/// The keys that a choice of the planner settles.
constexpr std::array<std::string_view, 10> grid_keys_chosen = {"parallel.strategy",
                                                               "parallel.tensor.x",
                                                               "parallel.tensor.y",
                                                               "parallel.tensor.z",
                                                               "parallel.data",
                                                               "parallel.order",
                                                               "parallel.pipeline.stages",
                                                               "parallel.pipeline.schedule",
                                                               "parallel.pipeline.blocks",
                                                               "parallel.pipeline.meshes"};

void store_all(const std::string& path, const YamlNode& node, Config& config) {
  if (const Key* key = find_key(path)) {
    require(!store_value(*key, node, config),
            [&] { return "a grid's text has values of keys: " + path; });
    return;
  }
  require(node.kind == YamlNode::Kind::map, [&] { return "a grid's text has sections: " + path; });
  for (const YamlMember& member : node.members)
    store_all(path.empty() ? member.key.text : path + "." + member.key.text, member.value, config);
}

}  // namespace

Config with_choice(const Config& config, const GridChoice& choice) {
  Config result = config;
  plan::PipelineSpec& pipeline = result.plan.pipeline;
  result.plan.grid = choice.grid;
  if (config.open_axes.stages) {
    pipeline.stages = choice.stages;
    pipeline.schedule = choice.schedule;
  }
  if (!choice.meshes.empty()) {
    pipeline.grids = choice.meshes;
    pipeline.layers = choice.layers;
  }
  result.open_axes = {};
  if (config.plan.strategy != plan::Strategy::searched) return result;
  result.plan.strategy = choice.strategy;
  return choice.layout ? with_layout(result, *choice.layout) : result;
}

Config with_least_grid(const Config& config) {
  Config result = config;
  result.open_axes = {.data = result.open_axes.data};  // their sizes are 1
  return result;
}

std::string grid_yaml(const Config& config) {
  require(!config.open_axes.are_planned(), "a grid that goes to other ranks is settled");
  Config copy = config;  // places hand out references
  std::string text;
  std::string_view before;
  for (const std::string_view path : grid_keys_chosen) {
    for (const std::string& opening : opening_lines(path, before))
      if (!opening.empty()) text += opening + "\n";
    text += indent_of(path) + format("{}: {}\n", leaf_of(path), value_text(*find_key(path), copy));
    before = path;
  }
  return text;
}

Config with_grid_yaml(const Config& config, const std::string& yaml) {
  std::vector<Diagnostic> problems;
  const YamlDocument document = parse_yaml(yaml, "the grid of the first rank", problems);
  require(problems.empty(), "a grid's text is YAML");
  Config result = config;
  store_all("", document.root, result);
  require(!result.open_axes.are_planned(), "a grid's text leaves no axis open");
  return result;
}

Config with_grid(const Config& config, const plan::Grid& grid) {
  Config result = config;
  result.plan.grid = grid;
  result.open_axes.data = false;
  return result;
}

Config with_stages(const Config& config, const plan::Grid& grid, std::int64_t stages,
                   std::int64_t ranks_per_host) {
  Config result = config;
  result.plan.grid = grid;
  plan::PipelineSpec& pipeline = result.plan.pipeline;
  pipeline.stages = stages;
  pipeline.grids.clear();
  if (!pipeline.reshard.ranks_per_host) pipeline.reshard.ranks_per_host = ranks_per_host;
  if (stages == 1) pipeline = {};
  return result;
}

Config with_plan(const Config& config, const plan::PlanSpec& plan) {
  Config result = config;
  result.plan = plan;
  result.layout = plan.layout ? plan.layout->name : "";
  result.micro_batch_size = plan.micro_batch_size;  // of a smaller batch too
  result.open_axes = {};
  return result;
}

Config with_layout(const Config& config, const plan::GivenLayout& layout) {
  Config result = config;
  result.layout = layout.name;
  result.plan.layout = layout;
  return result;
}

Config with_open_data(const Config& config) {
  Config result = config;
  result.open_axes.data = true;
  result.plan.grid.data = 1;
  return result;
}

Config with_model(const Config& config, const model::Spec& model) {
  Config result = config;
  result.set_model(model);
  return result;
}

Config with_machine(const Config& config, const std::string& machine) {
  Config result = config;
  result.machine = machine;
  return result;
}

Config with_prompt(const Config& config, const std::string& prompt) {
  Config result = config;
  result.sample.prompt = prompt;
  return result;
}

Config with_ranks(const Config& config, const KnownRanks& ranks) {
  Config result = config;
  if (ranks.threads && config.threads == 0) result.threads = *ranks.threads;
  plan::PipelineSpec& pipeline = result.plan.pipeline;
  if (pipeline.stages > 1 && !pipeline.reshard.ranks_per_host)
    pipeline.reshard.ranks_per_host = ranks.per_host;
  return result;
}

Config without_threads(const Config& config) {
  Config result = config;
  result.threads = 0;
  return result;
}

}  // namespace fourfold::config
