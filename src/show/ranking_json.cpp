// Priced grids as JSON, in seconds and bytes.
#include <algorithm>
#include <utility>

#include "search/explain.h"
#include "search/searched_plans.h"
#include "show/front_chart.h"
#include "show/ranking_text.h"

namespace fourfold::show {
namespace {

using search::PricedPlan;

Json simulated_json(const PricedPlan& plan) {
  if (!plan.simulated) return {};
  const search::Simulated& simulated = *plan.simulated;
  Json costs = Json::array();
  for (const simulate::Cost& cost : simulated.costs)
    costs.push(Json::object(
        {{"what", cost.what}, {"exposed", cost.is_exposed}, {"seconds", cost.seconds}}));
  return Json::object({{"step_s", simulated.step_s},
                       {"exposed_communication_s", simulated.exposed_s},
                       {"is_bound", simulated.is_bound},
                       {"followed_micro_batches", simulated.micros},
                       {"memory_bytes", simulated.bytes},
                       {"fits", simulated.fits},
                       {"costs", std::move(costs)},
                       {"by_analogy", simulate::analogy_json(simulated.by_analogy)}});
}

Json plan_json(std::size_t number, const PricedPlan& plan, const PricedPlan& first) {
  const plan::Grid& grid = plan.spec.grid;
  const search::Price& price = plan.price;
  const search::MemoryNeed& memory = plan.demand.memory;
  Json traffic = Json::array();
  for (const search::TrafficPrice& entry : price.traffic) {
    Json axes = Json::array();
    for (const AxisId axis : entry.axes) axes.push(plan.mesh.axes[axis.index()].name);
    traffic.push(Json::object({{"purpose", search::purpose_word(entry.purpose)},
                               {"collective", to_string(entry.kind)},
                               {"axes", std::move(axes)},
                               {"sent_bytes", entry.sent_bytes},
                               {"seconds", entry.seconds}}));
  }
  Json stages = Json::array();
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const search::StageOfPlan& stage = plan.stages[i];
    const plan::Grid& mesh = plan.spec.pipeline.grids.empty() ? grid : plan.spec.pipeline.grids[i];
    stages.push(Json::object({{"blocks", stage.layers},
                              {"x", mesh.x},
                              {"y", mesh.y},
                              {"z", mesh.z},
                              {"data", mesh.data},
                              {"micro_batches_in_flight", stage.in_flight},
                              {"memory_bytes", stage.memory_bytes}}));
  }
  return Json::object(
      {{"plan", number},
       {"stages", plan.spec.pipeline.stages},
       {"schedule",
        plan.stages.empty() ? Json() : Json(pipeline::to_string(plan.spec.pipeline.schedule))},
       {"of_stages", std::move(stages)},
       {"x", grid.x},
       {"y", grid.y},
       {"z", grid.z},
       {"data", grid.data},
       {"order", Json::array_of(grid.order)},
       {"layout", search::layout_word(plan.spec)},
       {"is_searched_too", plan.is_searched_too},
       {"micro_batch_size", plan.spec.micro_batch_size},
       {"accumulation", plan.accumulation},
       {"activation_checkpointing", plan::to_string(plan.spec.checkpointing)},
       {"seconds", Json::object({{"step", price.step()},
                                 {"hidden", price.hidden()},
                                 {"slower_beside_traffic", price.slower_by},
                                 {"products", price.products},
                                 {"other_rows", price.others},
                                 {"weights", price.weights},
                                 {"gradients", price.gradients},
                                 {"activations", price.activations},
                                 {"waiting_for_stages", price.pipeline},
                                 {"axonn_equation_9", plan.linears_s}})},
       {"memory_bytes", Json::object({{"all", memory.all()},
                                      {"room", plan.demand.room_bytes},
                                      {"parameters", memory.parameters},
                                      {"rounded_parameters", memory.rounded},
                                      {"optimizer", memory.optimizer},
                                      {"gradients", memory.gradients},
                                      {"weights_in_use", memory.weights},
                                      {"activations", memory.activations}})},
       {"traffic", std::move(traffic)},
       {"simulated", simulated_json(plan)},
       {"longer_than_plan_1", search::excess(first, plan)}});
}

}  // namespace

Json ranking_json(const job::Ranking& ranking, std::size_t top,
                  const std::optional<TrainingCost>& cost) {
  const search::Answer& answer = ranking.answer;
  Json plans = Json::array(), rivals = Json::array();
  for (std::size_t i = 0; i < std::min(top, answer.plans.size()); ++i)
    plans.push(plan_json(i + 1, answer.plans[i], answer.plans[0]));
  for (const search::Rival& rival : ranking.rivals)
    rivals.push(Json::object({{"name", rival.name}, {"seconds", rival.seconds}}));
  Json pipelined = Json::array();
  for (const search::Rival& rival : ranking.pipelined_rivals)
    pipelined.push(Json::object({{"name", rival.name},
                                 {"seconds", rival.seconds},
                                 {"waiting_for_stages", rival.waiting_s}}));
  Json json = Json::object({{"machine", ranking.cluster.name},
                            {"ranks", ranking.ranks},
                            {"memory_bytes", answer.memory_bytes},
                            {"grids", answer.grids},
                            {"not_searched", answer.not_searched},
                            {"plans_priced", answer.orders},
                            {"fitting", answer.plans.size()},
                            {"with_own_meshes", answer.with_own_meshes},
                            {"too_large", answer.too_large.size()},
                            {"simulated", answer.simulated},
                            {"never_ending", answer.never_ending.size()},
                            {"plans", std::move(plans)},
                            {"rivals", std::move(rivals)},
                            {"pipelined_rivals", std::move(pipelined)}});
  if (cost) json.set("training", to_json(*cost));
  Json front = Json::array();
  for (const std::size_t i : front_of(answer)) front.push(i + 1);
  json.set("front", std::move(front));
  return json;
}

}  // namespace fourfold::show
