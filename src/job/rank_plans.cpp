#include "job/rank_plans.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "compile/fit.h"
#include "config/changes.h"
#include "config/infeasible_text.h"
#include "job/given_layout.h"
#include "job/job.h"
#include "job/nearest_grids.h"
#include "job/settle.h"
#include "model/model.h"
#include "search/explain.h"
#include "search/searched_plans.h"
#include "search/simulate_best.h"

namespace fourfold::job {
namespace {

std::int64_t asked_ranks(const config::Config& config, const machine::Cluster& cluster,
                         const PlansAsked& asked) {
  const std::int64_t most = cluster.ranks();
  if (asked.nodes) {
    const auto of_node = cluster.ranks_of_node();
    if (!of_node)
      throw UserError(ExitCode::bad_config,
                      format("{} does not say what a node is (key node of its file); set --ranks "
                             "to a number from 1 to {} instead of --nodes",
                             cluster.name, format_grouped(most)));
    if (*asked.nodes > most / *of_node)
      throw UserError(ExitCode::bad_config,
                      format("{} has {} of {}, not {}; set --nodes to at most that", cluster.name,
                             counted(most / *of_node, "node"), counted(*of_node, "rank"),
                             format_grouped(*asked.nodes)));
    return *asked.nodes * *of_node;
  }
  const std::int64_t ranks =
      asked.ranks.value_or(plan::num_ranks(config.plan.grid) * config.plan.pipeline.stages);
  machine::require_ranks(cluster, ranks);
  return ranks;
}

/// True if the user has written the key.
bool is_given(const config::Config& config, std::string_view key) {
  const config::Origin* origin = config.origins.find(key);
  return origin != nullptr && origin->place != "default" && origin->place != "derived";
}

/// One more than any number of stages that a step has micro-batches for.
constexpr std::int64_t too_many_stages = 128;

/// As many stages as the configuration has; powers of two where it leaves them open or says nothing
/// of stages, unless what it has by default is to be kept.
void choose_stages(const config::Config& config, const PlansAsked& asked,
                   search::Question& question) {
  using enum pipeline::Schedule;
  const plan::PipelineSpec& pipeline = config.plan.pipeline;
  if (pipeline.stages_per_mesh > 1)
    throw UserError(ExitCode::bad_config,
                    format("the planner gives each mesh one stage, and "
                           "parallel.pipeline.stages_per_mesh = {}; set it to 1, or simulate this "
                           "pipeline as it is",
                           pipeline.stages_per_mesh));
  question.stages = {pipeline.stages};
  const bool is_silent = !asked.keeps_what_is_set && !is_given(config, "parallel.pipeline.stages");
  if (config.open_axes.stages || is_silent)
    for (std::int64_t stages = 2; stages < too_many_stages; stages *= 2)
      question.stages.push_back(stages);
  question.schedules = {one_f_one_b, eager_one_f_one_b, gpipe};
  const bool has_schedule = is_given(config, "parallel.pipeline.schedule") ||
                            (asked.keeps_what_is_set && !config.open_axes.stages);
  if (has_schedule && pipeline.schedule != interleaved) question.schedules = {pipeline.schedule};
}

/// Beside a plan that is searched for stands that of `axonn`.
plan::PlanSpec by_axonn(plan::PlanSpec spec) {
  spec.strategy = plan::Strategy::axonn;
  return spec;
}

/// The plan of the layout that the configuration gives, on its grid.
std::optional<plan::PlanSpec> given_plan(const config::Config& config, std::int64_t ranks) {
  if (config.layout.empty()) return std::nullopt;
  return settle(config, {.ranks = ranks}).plan();
}

search::Question question_of(const config::Config& config, const machine::Cluster& cluster,
                             std::int64_t ranks, std::int64_t node_ranks) {
  search::Question question;
  question.cluster = &cluster;
  question.ranks = ranks;
  question.spec = config.plan_spec();
  question.layers = model::num_layers(config.model());
  question.has_equal_layers = config.family().has_equal_layers;
  question.own_meshes = true;
  question.searches_layouts = config.plan.strategy == plan::Strategy::searched;
  question.given = given_plan(config, ranks);
  question.settle = [&config, node_ranks](const plan::Grid& grid, std::int64_t stages) {
    plan::PlanSpec spec = config::with_stages(config, grid, stages, node_ranks).plan_spec();
    return config.plan.strategy == plan::Strategy::searched ? by_axonn(std::move(spec)) : spec;
  };
  question.build = [&config](std::int64_t layers, const plan::PlanSpec& spec) {
    const model::Spec of_model = model::with_layers(config.model(), layers);
    const auto b = std::get<plan::Batching>(plan::solve_batching(spec));
    graph::ModelGraphs model =
        model::build(of_model,
                     {b.samples(), b.length, b.global_batch, config.data.mask_documents,
                      config.data.restart_positions, b.chunks},
                     config.optimizer, model::Writes::nothing);
    std::erase_if(model.graphs,
                  [](const graph::Graph& graph) { return graph.kind != op::ProgramKind::train; });
    return model;
  };
  return question;
}

/// An order that follows from the strategy may be another.
void keep_what_is_set(const config::Config& config, search::Question& question) {
  question.admits = [&config](const plan::Grid& grid) { return has_sizes_set(config, grid); };
  const config::Origin* origin = config.origins.find("parallel.order");
  question.keeps_order = origin != nullptr && origin->place != "derived";
}

/// Makes the programs that any command makes of a configuration with a spec's grid. Where no
/// choice is within a limit on memory, those that need least.
std::function<program::Job(const plan::PlanSpec&)> compiler_of(const config::Config& config,
                                                               std::int64_t ranks) {
  return [&config, ranks, target = target_for(config, ranks)](const plan::PlanSpec& spec) {
    const PlannedRun run = plan_run(settle(config::with_plan(config, spec), {.ranks = ranks}));
    auto made = compile::compile_to_fit(run.graphs, run.plan, target);
    if (auto* none = std::get_if<compile::DoesNotFit>(&made)) return std::move(none->least.job);
    return std::move(std::get<compile::Fitted>(made).job);
  };
}

/// What a run saves: weights, moments, averages, counters, each once.
double checkpoint_bytes_of(const search::Question& question, const search::PricedPlan& plan) {
  const graph::ModelGraphs model = question.build(question.layers, plan.spec);
  double bytes = 0;
  for (const graph::Value& value : model.at(op::ProgramKind::train).values)
    if (graph::is_persistent(value.role))
      bytes +=
          static_cast<double>(value.shape.elements() *
                              size_bytes(op::element_dtype(value.element, question.spec.compute)));
  return bytes;
}

[[noreturn]] void refuse_illegal(const Ranking& ranking) {
  std::string why;
  for (const plan::Problem& problem : ranking.answer.problems)
    if (plan::is_of_any_grid(problem))
      throw UserError(ExitCode::bad_config, config::in_words(problem, ranking.config.kind).message);
  for (const plan::Problem& problem : ranking.answer.problems)
    if (why.empty() || std::holds_alternative<plan::UnevenBatch>(problem))
      why = config::in_words(problem, ranking.config.kind).message;
  throw UserError(
      ExitCode::does_not_fit,
      format("no grid of {} divides the model and its batch: {}{}", counted(ranking.ranks, "rank"),
             why, nearest_grids(ranking.config, ranking.ranks)));
}

[[noreturn]] void refuse_too_large(const Ranking& ranking) {
  const search::PricedPlan& least = ranking.answer.too_large.front();
  std::string tensors, ways;
  for (const search::LargeTensor& tensor : least.demand.largest)
    tensors += format("{}{} {}", tensors.empty() ? "" : ", ", tensor.name,
                      format_bytes(static_cast<std::int64_t>(tensor.bytes)));
  const plan::Checkpointing& checkpointing = least.spec.checkpointing;
  if (checkpointing.layers != 1 || checkpointing.keeps_products)
    ways += "set memory.activation_checkpointing = full, ";
  if (least.spec.micro_batch_size > 1)
    ways += format("reduce train.micro_batch_size = {}, ", least.spec.micro_batch_size);
  const auto cut = static_cast<std::int64_t>(ranking.answer.cut_in_vain);
  const std::string layouts =
      cut == 0 ? "" : format(", nor does a layout with all {} cut", counted(cut, "parameter"));
  throw UserError(
      ExitCode::does_not_fit,
      format(
          "no grid of {} fits{}: a rank has {} on {}, and the least that one needs is {} ({}); its "
          "largest tensors are {}; {}{}use more ranks",
          counted(ranking.ranks, "rank"), layouts,
          format_bytes(static_cast<std::int64_t>(ranking.answer.memory_bytes)),
          ranking.cluster.name, format_bytes(static_cast<std::int64_t>(least.demand.memory.all())),
          search::shape_text(least.spec), tensors, ways, ways.empty() ? "" : "or "));
}

[[noreturn]] void refuse_never_ending(const Ranking& ranking) {
  const search::PricedPlan& first = ranking.answer.never_ending.front();
  throw UserError(ExitCode::internal,
                  format("none of {} comes to its end, which is a bug in Fourfold; {}: {}",
                         counted(std::ssize(ranking.answer.never_ending), "plan"),
                         search::shape_text(first.spec), first.never_ends));
}

}  // namespace

bool has_sizes_set(const config::Config& config, const plan::Grid& grid) {
  const plan::Grid& set = config.plan.grid;
  const config::OpenAxes& open = config.open_axes;
  return (open.x || grid.x == set.x) && (open.y || grid.y == set.y) &&
         (open.z || grid.z == set.z) && (open.data || grid.data == set.data);
}

Ranking rank_plans(const config::Config& config, machine::Cluster cluster,
                   const PlansAsked& asked) {
  Ranking ranking{.config = config,
                  .cluster = std::move(cluster),
                  .answer = {},
                  .rivals = {},
                  .pipelined_rivals = {}};
  ranking.ranks = asked_ranks(ranking.config, ranking.cluster, asked);
  ranking.node_ranks =
      std::min(ranking.cluster.ranks_of_node().value_or(ranking.ranks), ranking.ranks);
  machine::required_rate(ranking.cluster, ranking.config.plan.compute);
  search::Question question =
      question_of(ranking.config, ranking.cluster, ranking.ranks, ranking.node_ranks);
  choose_stages(ranking.config, asked, question);
  if (asked.keeps_what_is_set) keep_what_is_set(ranking.config, question);
  question.compile = compiler_of(ranking.config, ranking.ranks);
  ranking.answer = search::rank_grids(question);
  const auto bad = std::ranges::find_if(ranking.answer.problems, [](const plan::Problem& problem) {
    return std::holds_alternative<plan::BadLayout>(problem);
  });
  if (bad != ranking.answer.problems.end()) refuse({{*bad}}, config, asked.ranks);
  if (ranking.answer.plans.empty() && ranking.answer.too_large.empty()) refuse_illegal(ranking);
  if (ranking.answer.plans.empty()) refuse_too_large(ranking);
  if (asked.simulated > 0) {
    search::simulate_best(question, ranking.answer, asked.simulated);
    if (ranking.answer.plans.empty()) refuse_never_ending(ranking);
  }
  const search::PricedPlan& first = ranking.answer.plans.front();
  const std::int64_t at_once = first.spec.micro_batch_size * ranking.ranks,
                     micros = std::max<std::int64_t>(first.spec.global_batch_size / at_once, 1);
  ranking.checkpoint_bytes = checkpoint_bytes_of(question, first);
  const std::vector<search::Linear> linears = search::linears_of_step(question, first);
  const auto element_bytes = static_cast<double>(size_bytes(ranking.config.plan.compute));
  ranking.rivals = search::price_rivals(ranking.cluster, ranking.ranks, ranking.node_ranks, linears,
                                        static_cast<double>(micros), element_bytes);
  if (question.has_equal_layers)
    ranking.pipelined_rivals = search::price_pipelined_rivals(
        ranking.cluster, ranking.ranks, ranking.node_ranks, linears, element_bytes,
        {question.layers, first.spec.global_batch_size, first.price.compute()});
  return ranking;
}

search::PlanDifferences differences_of(const Ranking& ranking, const search::PricedPlan& a,
                                       const search::PricedPlan& b) {
  return search::compare_plans(
      question_of(ranking.config, ranking.cluster, ranking.ranks, ranking.node_ranks), a, b);
}

namespace {

const search::PricedPlan& plan_at(const Ranking& ranking, std::int64_t number) {
  const auto& plans = ranking.answer.plans;
  if (number > std::ssize(plans))
    throw UserError(ExitCode::bad_config,
                    format("--choose {}: the list has plans 1 to {}; choose one of them", number,
                           plans.size()));
  return plans[static_cast<std::size_t>(number - 1)];
}

}  // namespace

std::string layout_problem_of(const Ranking& ranking, std::int64_t number) {
  const plan::PlanSpec& spec = plan_at(ranking, number).spec;
  if (spec.pipeline.stages > 1)
    throw UserError(ExitCode::bad_config,
                    format("plan {} cuts the model into {} stages, and layouts are searched for on "
                           "one grid; choose a plan of one stage, or set "
                           "parallel.pipeline.stages = 1",
                           number, spec.pipeline.stages));
  const search::Question question =
      question_of(ranking.config, ranking.cluster, ranking.ranks, ranking.node_ranks);
  search::Pricer pricer(ranking.cluster, *machine::rate_of(ranking.cluster.device, spec.compute),
                        spec.bucket_bytes);
  plan::PlanSpec of_strategy = by_axonn(spec);
  of_strategy.layout.reset();
  return search::searched_problem(question.build(question.layers, spec), of_strategy, pricer);
}

PlannedRun planned_of(const Ranking& ranking, std::int64_t number) {
  const search::PricedPlan& plan = plan_at(ranking, number);
  return plan_run(settle(config::with_plan(ranking.config, plan.spec), {.ranks = ranking.ranks}));
}

}  // namespace fourfold::job
