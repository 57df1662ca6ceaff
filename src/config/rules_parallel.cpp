// Relations between the keys of parallel, and of what is divided among ranks.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "config/infeasible_text.h"
#include "config/rules_words.h"
#include "config/schema.h"
#include "plan/make_mesh.h"

namespace fourfold::config {
namespace {

Verdict micro_batch_divides(const Config& c) {
  return divides("train.global_batch_size", c.plan.global_batch_size, "train.micro_batch_size",
                 c.micro_batch_size.value_or(1));
}

/// Where the micro-batch is left open, the plan knows.
Verdict chunks_divide(const Config& c) {
  const std::int64_t chunks = c.plan.chunks, samples = c.micro_batch_size.value_or(chunks);
  if (samples % chunks == 0) return std::nullopt;
  return Finding{format("train.micro_batch_size = {} is not divisible by parallel.chunks = {}",
                        samples, chunks),
                 format("choices that work: parallel.chunks = {}; or train.micro_batch_size = {}",
                        samples % 2 == 0 ? "1, 2" : "1", multiples_near(chunks, samples))};
}

/// What all ranks process at once divides the step; `auto` numbers count as 1 here.
Verdict batch_divides(const Config& c) {
  const std::int64_t whole = c.plan.global_batch_size, micro = c.micro_batch_size.value_or(1),
                     replicas = c.plan.grid.data * c.plan.grid.z;
  // Without ranks that divide it, it is another rule's.
  if (whole % micro != 0 || whole % (micro * replicas) == 0) return std::nullopt;
  std::string names, sizes;
  const auto add = [&](std::string_view name, std::optional<std::int64_t> size) {
    if (!size) return;
    names += format("{}{}", names.empty() ? "" : " x ", name);
    sizes += format("{}{}", sizes.empty() ? "" : " x ", *size);
  };
  add("train.micro_batch_size", c.micro_batch_size);
  if (!c.open_axes.data) add("parallel.data", c.plan.grid.data);
  add("parallel.tensor.z", c.plan.grid.z);
  std::string ways = "train.global_batch_size = " + multiples_near(micro * replicas, whole);
  if (whole % replicas == 0)
    ways =
        format("train.micro_batch_size = {}; or {}", divisors_near(whole / replicas, micro), ways);
  return Finding{format("train.global_batch_size = {} is not divisible by {} = {} = {}", whole,
                        names, sizes, micro * replicas),
                 "choices that work: " + ways};
}

/// What plan/ says about the strategy's axes, here with the place in the file.
Verdict strategy_allows(const Config& c, const std::string& axis_key) {
  const auto grid = plan::solve_grid(c.plan, std::nullopt);
  const auto* infeasible = std::get_if<plan::Infeasible>(&grid);
  if (infeasible == nullptr) return std::nullopt;
  for (const plan::Problem& problem : infeasible->problems) {
    const auto [keys, message] = in_words(problem, c.kind);
    if (std::find(keys.begin(), keys.end(), axis_key) == keys.end()) continue;
    const auto advice = message.rfind("; ");
    return Finding{message.substr(0, advice),
                   advice == std::string::npos ? "" : message.substr(advice + 2)};
  }
  return std::nullopt;
}

Verdict grid_is_a_job(const Config& c) {
  const plan::Grid& grid = c.plan.grid;
  const double ranks = static_cast<double>(grid.x) * static_cast<double>(grid.y) *
                       static_cast<double>(grid.z) * static_cast<double>(grid.data) *
                       static_cast<double>(c.plan.pipeline.meshes());
  if (ranks <= static_cast<double>(most_ranks)) return std::nullopt;
  const std::string stages = c.plan.pipeline.stages > 1
                                 ? format("parallel.pipeline.stages = {}, ", c.plan.pipeline.stages)
                                 : "";
  return Finding{format("{}parallel.tensor x {} y {} z {} and parallel.data = {} are {} ranks",
                        stages, grid.x, grid.y, grid.z, grid.data, format_number(ranks)),
                 format("the largest job has {}", most_ranks)};
}

Verdict stages_have_layers_each(const Config& c) {
  const plan::PipelineSpec& pipeline = c.plan.pipeline;
  const auto numbers = static_cast<std::int64_t>(pipeline.layers.size());
  if (numbers == 0 || numbers == pipeline.stages || c.open_axes.stages) return std::nullopt;
  return Finding{format("parallel.pipeline.blocks has {}, for parallel.pipeline.stages = {}",
                        counted(numbers, "number"), pipeline.stages),
                 "write one for each stage, or []"};
}

Verdict stages_have_meshes_each(const Config& c) {
  const plan::PipelineSpec& pipeline = c.plan.pipeline;
  const auto meshes = static_cast<std::int64_t>(pipeline.grids.size());
  if (meshes == 0 || meshes == pipeline.meshes() || c.open_axes.stages) return std::nullopt;
  const bool is_shared = pipeline.stages_per_mesh > 1;
  return Finding{
      format("parallel.pipeline.meshes has {}, for parallel.pipeline.stages = {}{}",
             counted(meshes, "grid"), pipeline.stages,
             is_shared ? format(", {} per mesh", pipeline.stages_per_mesh) : std::string()),
      is_shared ? format("write {}, or []", pipeline.meshes()) : "write one for each stage, or []"};
}

Verdict meshes_share_stages_evenly(const Config& c) {
  const plan::PipelineSpec& pipeline = c.plan.pipeline;
  const std::int64_t stages = pipeline.stages, shared = pipeline.stages_per_mesh;
  if (shared == 1) return std::nullopt;
  if (stages % shared != 0)
    return Finding{format("parallel.pipeline.stages = {} is not divisible by "
                          "parallel.pipeline.stages_per_mesh = {}",
                          stages, shared),
                   format("choices that work: {}", multiples_near(shared, stages))};
  if (pipeline.schedule == pipeline::Schedule::interleaved) return std::nullopt;
  return Finding{format("parallel.pipeline.stages_per_mesh = {} does not go with "
                        "parallel.pipeline.schedule = {}, which gives a mesh one stage",
                        shared, to_string(pipeline.schedule)),
                 "set parallel.pipeline.schedule = interleaved, or "
                 "parallel.pipeline.stages_per_mesh = 1"};
}

/// What the planner chooses is not given beside.
Verdict open_plans_have_no_stages_given(const Config& c) {
  const plan::PipelineSpec& pipeline = c.plan.pipeline;
  if (!pipeline.grids.empty() && c.open_axes.are_planned())
    return Finding{
        "parallel.pipeline.meshes gives each stage its grid, and auto asks the planner for it",
        "leave either out"};
  if (pipeline.stages_per_mesh > 1 && c.open_axes.are_planned())
    return Finding{format("parallel.pipeline.stages_per_mesh = {} does not go with auto: the "
                          "planner gives each mesh one stage",
                          pipeline.stages_per_mesh),
                   "write stages and sizes, or set parallel.pipeline.stages_per_mesh = 1"};
  if (!pipeline.layers.empty() && c.open_axes.stages)
    return Finding{
        "parallel.pipeline.blocks has numbers for stages of which auto leaves open how "
        "many there are",
        "write the number in parallel.pipeline.stages, or leave the blocks out"};
  return std::nullopt;
}

/// A grid of all stages beside grids of their own can only be that of the first one, as settled
/// configurations have it.
Verdict meshes_replace_the_grid(const Config& c) {
  if (c.plan.pipeline.grids.empty()) return std::nullopt;
  plan::Grid grid = c.plan.grid, first = c.plan.pipeline.grids[0];
  first.order = grid.order;
  if (grid == first || (grid.x * grid.y * grid.z == 1 && c.open_axes.data)) return std::nullopt;
  return Finding{
      "parallel.pipeline.meshes gives each stage its grid, and parallel.tensor and "
      "parallel.data are of all stages",
      "leave either out"};
}

Verdict sequence_is_cut_by_megatron(const Config& c) {
  if (!c.plan.shard_sequence || c.plan.strategy == plan::Strategy::megatron) return std::nullopt;
  return Finding{format("parallel.shard_sequence = true does not go with parallel.strategy = {}",
                        to_string(c.plan.strategy)),
                 "set parallel.strategy = megatron, or parallel.shard_sequence = false"};
}

/// A layout is of one mesh, and says all; beside `auto` it is what a search has found.
Verdict layouts_say_all(const Config& c) {
  const auto refused = [](const std::string& what, const std::string& hint) {
    return Finding{"parallel.layout is a layout of one grid, " + what, hint};
  };
  if (c.layout.empty()) return std::nullopt;
  if (c.plan.strategy != plan::Strategy::axonn && c.plan.strategy != plan::Strategy::searched)
    return Finding{format("parallel.layout says how tensors are cut, and so does "
                          "parallel.strategy = {}",
                          to_string(c.plan.strategy)),
                   "leave either out"};
  if (c.plan.pipeline.stages > 1 || c.open_axes.stages)
    return refused("and a model in stages has several", "set parallel.pipeline.stages = 1");
  if (c.open_axes.are_planned())
    return refused("and auto asks the planner for another one",
                   "write the sizes of the file's line 'mesh:', or leave parallel.layout out");
  if (c.plan.strategy == plan::Strategy::searched) return std::nullopt;
  if (!c.plan.pins.empty())
    return Finding{"parallel.layout says how every weight lies, and parallel.pin says it again",
                   "write what is pinned into the file, or leave parallel.layout out"};
  if (c.plan.shard_sequence || c.plan.shard_states)
    return Finding{format("parallel.layout says how all tensors lie, and {} asks for another way",
                          c.plan.shard_sequence ? "parallel.shard_sequence = true"
                                                : "optimizer.shard = states"),
                   "leave either out"};
  return std::nullopt;
}

/// A search is for one mesh: where the number of stages is stated, no plan of stages is searched.
Verdict one_mesh_is_searched(const Config& c) {
  if (c.plan.strategy != plan::Strategy::searched || c.plan.pipeline.stages == 1)
    return std::nullopt;
  return Finding{
      "parallel.strategy = auto searches for the layout of one grid, and "
      "parallel.pipeline.stages cuts the model into several",
      "set parallel.pipeline.stages = 1 or auto, or parallel.strategy = axonn"};
}

Rule strategy_rule(const std::string& axis_key) {
  return {{"parallel.strategy", axis_key},
          [axis_key](const Config& c) { return strategy_allows(c, axis_key); }};
}

}  // namespace

void refuse_signals(const Config& config) {
  const plan::PipelineSpec& pipeline = config.plan.pipeline;
  if (pipeline.stages == 1 || pipeline.reshard.strategy != reshard::Strategy::signal) return;
  const std::string key = "parallel.pipeline.transfer";
  const Origin* origin = config.origins.find(key);
  throw UserError(
      ExitCode::bad_config,
      format(
          "{}{} = signal passes a byte in place of a tensor: a bound for `fourfold simulate` and "
          "`fourfold plan` alone; set broadcast, which moves the data",
          origin == nullptr ? "" : origin->place + ": ", key));
}

std::vector<Rule> parallel_rules() {
  return {
      {{"train.global_batch_size", "train.micro_batch_size"}, micro_batch_divides},
      {{"train.global_batch_size", "train.micro_batch_size", "parallel.data", "parallel.tensor.z"},
       batch_divides,
       true},
      {{"train.micro_batch_size", "parallel.chunks"}, chunks_divide},
      {{"parallel.tensor.x", "parallel.tensor.y", "parallel.tensor.z", "parallel.data",
        "parallel.pipeline.stages", "parallel.pipeline.stages_per_mesh"},
       grid_is_a_job},
      {{"parallel.pipeline.stages", "parallel.pipeline.stages_per_mesh",
        "parallel.pipeline.schedule"},
       meshes_share_stages_evenly},
      {{"parallel.pipeline.blocks", "parallel.pipeline.stages"}, stages_have_layers_each},
      {{"parallel.pipeline.meshes", "parallel.pipeline.stages",
        "parallel.pipeline.stages_per_mesh"},
       stages_have_meshes_each},
      {{"parallel.pipeline.stages", "parallel.pipeline.stages_per_mesh", "parallel.pipeline.blocks",
        "parallel.pipeline.meshes", "parallel.tensor.x", "parallel.tensor.y", "parallel.tensor.z"},
       open_plans_have_no_stages_given},
      {{"parallel.pipeline.meshes", "parallel.tensor.x", "parallel.tensor.y", "parallel.tensor.z",
        "parallel.data"},
       meshes_replace_the_grid},
      strategy_rule("parallel.tensor.x"),
      strategy_rule("parallel.tensor.y"),
      strategy_rule("parallel.tensor.z"),
      {{"parallel.shard_sequence", "parallel.strategy"}, sequence_is_cut_by_megatron},
      {{"parallel.layout", "parallel.strategy", "parallel.pipeline.stages", "parallel.tensor.x",
        "parallel.tensor.y", "parallel.tensor.z", "parallel.pin", "parallel.shard_sequence",
        "optimizer.shard"},
       layouts_say_all},
      {{"parallel.strategy", "parallel.pipeline.stages"}, one_mesh_is_searched},
  };
}

}  // namespace fourfold::config
