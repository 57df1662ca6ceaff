#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "graph/update.h"
#include "plan/plan.h"

namespace fourfold::plan {
namespace {

/// The spec of one stage: its grid, and the part of a micro-batch that is then a rank's.
std::variant<PlanSpec, Infeasible> stage_spec(const PlanSpec& spec, const Grid& grid,
                                              std::int64_t samples, std::size_t stage) {
  PlanSpec result = spec;
  result.grid = grid;
  const std::int64_t replicas = grid.z * grid.data.value();
  if (samples % replicas != 0) return Infeasible{{UnevenStage{stage, samples, replicas}}};
  result.micro_batch_size = samples / replicas;
  return result;
}

/// A table that goes from one stage to another is cut there from the whole, which has no padding.
std::optional<Infeasible> padded_table(const graph::Graph& train, const Stages& stages,
                                       const std::vector<Grid>& grids) {
  for (const Transfer& transfer : stages.transfers) {
    const graph::Value& value = train.value(*train.find(transfer.value));
    if (value.role != graph::ValueRole::parameter) continue;
    for (const Grid& grid : grids)
      if (const std::int64_t parts = grid.x * grid.y * grid.z; value.shape[0] % parts != 0)
        return Infeasible{{PaddedTransfer{value.name, value.shape[0], parts}}};
  }
  return std::nullopt;
}

}  // namespace

std::variant<std::vector<StagePlan>, Infeasible> plan_stages(
    const graph::Graph& train, const PlanSpec& spec, const std::vector<Grid>& grids,
    const std::vector<std::int64_t>& last_blocks) {
  require(grids.size() == last_blocks.size() + 1, "every stage but the last ends behind a block");
  if (grids.size() > 2) return Infeasible{{TooManyStages{grids.size()}}};
  const Stages stages = split_stages(train, last_blocks);
  std::vector<Mesh> meshes;
  std::size_t first_rank = 0;
  for (std::size_t s = 0; s < grids.size(); ++s) {
    Mesh mesh = make_mesh(grids[s]);
    mesh.name = format("stage{}", s);
    mesh.ranks = Ranks(Rank(first_rank), mesh.ranks.size());
    first_rank += mesh.ranks.size();
    meshes.push_back(std::move(mesh));
  }
  std::vector<StagePlan> result;
  for (std::size_t s = 0; s < grids.size(); ++s) {
    auto specified = stage_spec(spec, grids[s], spec.micro_batch_size, s);
    if (auto* infeasible = std::get_if<Infeasible>(&specified)) return std::move(*infeasible);
    const std::vector<graph::Graph> trained = {stages.graphs[s]};
    StagePlan stage;
    stage.model.graphs = {graph::init_graph(trained), stages.graphs[s],
                          graph::digest_graph(trained)};
    auto plan = make_plan(stage.model, std::get<PlanSpec>(specified));
    if (auto* infeasible = std::get_if<Infeasible>(&plan)) return std::move(*infeasible);
    stage.plan = std::get<Plan>(std::move(plan));
    if (auto infeasible = padded_table(train, stages, grids)) return std::move(*infeasible);
    stage.plan.meshes = {meshes[s]};
    stage.plan.world = static_cast<std::int64_t>(first_rank);
    stage.plan.stages = meshes;
    stage.plan.stage = s;
    stage.plan.transfers = stages.transfers;
    result.push_back(std::move(stage));
  }
  return result;
}

}  // namespace fourfold::plan
