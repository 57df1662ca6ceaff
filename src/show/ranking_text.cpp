#include "show/ranking_text.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "search/explain.h"
#include "search/searched_plans.h"
#include "show/difference_text.h"
#include "show/front_chart.h"

namespace fourfold::show {
namespace {

using search::PricedPlan;

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<std::int64_t>(bytes));
}

/// A time of a table; "-" for none.
std::string time_text(double seconds) {
  return seconds > 0 ? format_duration(seconds) : "-";
}

/// How far a closed form is from what was found: "-24 %".
std::string off_text(double closed, double found) {
  return format("{:+.1f} %", 100 * (closed - found) / found);
}

/// A size of the grid of all stages; "*" where it differs from stage to stage.
std::string size_text(const plan::PlanSpec& spec, std::int64_t (*size)(const plan::Grid&)) {
  const std::int64_t of_first = size(spec.grid);
  const bool differs = std::ranges::any_of(
      spec.pipeline.grids, [&](const plan::Grid& grid) { return size(grid) != of_first; });
  return differs ? "*" : format("{}", of_first);
}

/// Which columns a table has, by the plans of the list.
struct Columns {
  bool stages = false, layouts = false;
};

/// The columns that say which plan it is; of pipelines with stages and schedule, if any is one;
/// with who cuts tensors, if several do.
std::string grid_columns(std::size_t number, const PricedPlan& plan, const Columns& columns) {
  const plan::Grid& grid = plan.spec.grid;
  const plan::PipelineSpec& pipeline = plan.spec.pipeline;
  std::string text = format("{:>4} ", number);
  if (columns.layouts) text += format("{:<8} ", search::layout_word(plan.spec));
  if (columns.stages && pipeline.stages == 1) text += format("{:<8} ", 1);
  if (columns.stages && pipeline.stages > 1)
    text += format("{:<8} ", format("{} {}", pipeline.stages,
                                    pipeline::to_string(pipeline.schedule).substr(0, 5)));
  const auto size = [&](std::int64_t (*of)(const plan::Grid&)) { return size_text(plan.spec, of); };
  return text + format("{:>4} {:>4} {:>4} {:>5} {:<10}",
                       size([](const plan::Grid& one) { return one.x; }),
                       size([](const plan::Grid& one) { return one.y; }),
                       size([](const plan::Grid& one) { return one.z; }),
                       size([](const plan::Grid& one) { return one.data; }), join(grid.order, " "));
}

Columns columns_of(const search::Answer& answer) {
  Columns columns;
  for (const PricedPlan& plan : answer.plans) {
    columns.stages = columns.stages || plan.spec.pipeline.stages > 1;
    columns.layouts = columns.layouts || plan.spec.layout;
  }
  return columns;
}

std::string plan_line(std::size_t number, const PricedPlan& plan, const Columns& columns) {
  const double closed_s = plan.price.step(), closed_bytes = plan.expected_bytes();
  std::string text = grid_columns(number, plan, columns);
  if (const auto& simulated = plan.simulated)
    text += format(
        " {:>8} {:>8} {:>8} {:>9} {:>8} {:>7}{}",
        simulate::analogy_mark(simulated->by_analogy) + format_duration(simulated->step_s),
        time_text(simulated->exposed_s), format_duration(closed_s),
        off_text(closed_s, simulated->step_s), bytes_text(static_cast<double>(simulated->bytes)),
        off_text(closed_bytes, static_cast<double>(simulated->bytes)), simulated->fits ? "" : " !");
  else
    text += format(" {:>8} {:>8} {:>8} {:>9} {:>8}", "-", "-", format_duration(closed_s), "",
                   bytes_text(closed_bytes));
  return text + "\n";
}

/// What each step is spent on by closed form, and what takes it longer than that of plan 1.
std::string class_line(std::size_t number, const PricedPlan& plan, const PricedPlan& first,
                       bool has_stages) {
  const search::Price& price = plan.price;
  const std::string waiting =
      has_stages ? format(" {:>8}", time_text(price.pipeline)) : std::string();
  return format("{:>4} {:>8} {:>8} {:>8} {:>8}{}  {}\n", number, format_duration(price.compute()),
                time_text(price.weights), time_text(price.gradients), time_text(price.activations),
                waiting, number == 1 ? "" : search::excess(first, plan));
}

std::string table(const job::Ranking& ranking, std::size_t top) {
  const auto& plans = ranking.answer.plans;
  const std::size_t shown = std::min(top, plans.size());
  const Columns columns = columns_of(ranking.answer);
  std::string text =
      format("{:>4} {}{}{:>4} {:>4} {:>4} {:>5} {:<10} {:>8} {:>8} {:>8} {:>9} {:>8} {:>7}\n",
             "plan", columns.layouts ? "layout   " : "", columns.stages ? "stages   " : "", "x",
             "y", "z", "data", "order", "step", "exposed", "formula", "off", "memory", "off");
  for (std::size_t i = 0; i < shown; ++i) text += plan_line(i + 1, plans[i], columns);
  text += format("\n{:>4} {:>8} {:>8} {:>8} {:>8}{}  {}\n", "plan", "compute", "weights", "grads",
                 "activat.", columns.stages ? "  waiting" : "", "longer than plan 1");
  for (std::size_t i = 0; i < shown; ++i)
    text += class_line(i + 1, plans[i], plans[0], columns.stages);
  return text;
}

/// A sentence in lines of at most 100 columns, of which later ones are indented.
std::string wrapped(const std::string& sentence) {
  constexpr std::size_t most_columns = 100;
  std::string text;
  std::size_t width = 0;
  for (const std::string& word : split(sentence, ' ')) {
    const bool is_full = width > 0 && width + 1 + word.size() > most_columns;
    text += is_full ? "\n  " : width > 0 ? " " : "";
    width = (is_full ? 2 : width > 0 ? width + 1 : 0) + word.size();
    text += word;
  }
  return text + "\n";
}

/// Why a plan is before another one in the list.
std::string reason(const PricedPlan& a, std::int64_t number_a, const PricedPlan& b,
                   std::int64_t number_b) {
  std::string text =
      "Why: " + search::why_faster(a, format("plan {}", number_a), b, format("plan {}", number_b));
  constexpr double little = 0.01;
  const double all_of_b = search::seconds_beside(b, a),
               gained = all_of_b - search::seconds_beside(a, b);
  if (gained > 0 && gained < little * all_of_b)
    text += format("; this is below a hundredth of the step, less than {} can tell",
                   a.simulated && b.simulated ? "a simulation" : "closed forms");
  return wrapped(text + ".");
}

std::string reason(const job::Ranking& ranking) {
  const auto& plans = ranking.answer.plans;
  return plans.size() == 1 ? "One grid fits.\n" : reason(plans[0], 1, plans[1], 2);
}

std::string left_out(const job::Ranking& ranking) {
  const search::Answer& answer = ranking.answer;
  if (answer.too_large.empty()) return "";
  const PricedPlan& least = answer.too_large.front();
  std::vector<std::string> tensors;
  for (const search::LargeTensor& tensor : least.demand.largest)
    tensors.push_back(format("{} {}", tensor.name, bytes_text(tensor.bytes)));
  const auto count = static_cast<std::int64_t>(answer.too_large.size());
  return wrapped(format(
      "Left out: {} that {} more than the {} of a rank; the least is {} ({}), whose "
      "largest tensors are {}.",
      counted(count, "grid"), count == 1 ? "needs" : "need", bytes_text(answer.memory_bytes),
      bytes_text(least.demand.memory.all()), search::shape_text(least.spec), join(tensors, ", ")));
}

/// Plans whose programs the simulation has found to wait for ever.
std::string never_ending(const search::Answer& answer) {
  if (answer.never_ending.empty()) return "";
  const PricedPlan& first = answer.never_ending.front();
  return wrapped(
      format("Left out: {} whose ranks would wait for each other for ever, which is a "
             "bug in Fourfold; {}: {}.",
             counted(static_cast<std::int64_t>(answer.never_ending.size()), "plan"),
             search::shape_text(first.spec), first.never_ends));
}

std::string not_searched(const search::Answer& answer) {
  if (answer.not_searched == 0) return "";
  return wrapped(format("No layout was searched for on {}: {}.",
                        counted(answer.not_searched, "grid"), answer.not_searched_as));
}

std::string rivals_text(const job::Ranking& ranking) {
  std::vector<std::string> rivals;
  for (const search::Rival& rival : ranking.rivals)
    rivals.push_back(format("{} {}", rival.name, format_duration(rival.seconds)));
  std::string text =
      wrapped(format("The linears' traffic alone, by closed form: {} for plan 1 by AxoNN's "
                     "equations; by other methods, whether they fit or not: {}.",
                     format_duration(ranking.answer.plans[0].linears_s), join(rivals, ", ")));
  std::vector<std::string> pipelined;
  for (const search::Rival& rival : ranking.pipelined_rivals)
    pipelined.push_back(format("{} {} and {}", rival.name,
                               format_duration(rival.seconds - rival.waiting_s),
                               time_text(rival.waiting_s)));
  if (!pipelined.empty())
    text += wrapped(format("In three dimensions, traffic and then what stages wait: {}.",
                           join(pipelined, ", ")));
  return text;
}

/// What each stage of a pipeline has; nothing for a plan of one mesh.
std::string stages_text(const PricedPlan& plan, const std::string& name) {
  if (plan.stages.empty()) return "";
  std::vector<std::string> layers, in_flight, memory;
  for (const search::StageOfPlan& stage : plan.stages) {
    layers.push_back(format("{}", stage.layers));
    in_flight.push_back(format("{}", stage.in_flight));
    memory.push_back(bytes_text(stage.memory_bytes));
  }
  std::vector<std::string> meshes;
  for (const plan::Grid& grid : plan.spec.pipeline.grids) meshes.push_back(search::grid_text(grid));
  return wrapped(format(
      "The stages of {} have {} blocks, {}{} of {} {} in flight, and {} by formula.", name,
      join(layers, " + "), meshes.empty() ? "" : format("the meshes ({}), ", join(meshes, "), (")),
      join(in_flight, ", "), plan.accumulation,
      plan.accumulation == 1 ? "micro-batch" : "micro-batches", join(memory, ", ")));
}

/// What the figures of the table are.
std::string how_found(const search::Answer& answer) {
  const std::string formula =
      "A formula's time is what a step computes, and what it sends that computation cannot hide; "
      "the classes of traffic are what is sent, hidden or not.";
  if (answer.simulated == 0) return formula;
  std::string text = format(
      "Compiled and simulated: {} that are best by formula, with what may be hidden or with "
      "nothing hidden; sorted by that. {}",
      counted(static_cast<std::int64_t>(answer.simulated), "plan"), formula);
  const auto simulated = std::span(answer.plans).first(answer.simulated);
  if (std::ranges::any_of(answer.plans,
                          [](const auto& plan) { return !plan.spec.pipeline.grids.empty(); }))
    text += " Where it says '*', each stage has a size of its own.";
  if (std::ranges::any_of(simulated, [](const auto& plan) { return !plan.simulated->fits; }))
    text += " Marked '!': its programs need more memory than a rank has.";
  std::int64_t followed = 0;
  for (const PricedPlan& plan : simulated)
    if (plan.simulated->micros < plan.accumulation)
      followed = std::max(followed, plan.simulated->micros);
  if (followed > 0)
    text += format(
        " Of pipelines of many micro-batches as many are followed as show what each more takes, {} "
        "at most.",
        followed);
  return text;
}

/// What of the simulated step of a plan is priced by analogy; nothing where all was measured.
std::string by_analogy(const PricedPlan& plan, const std::string& name) {
  if (!plan.simulated || plan.simulated->by_analogy.empty()) return "";
  return wrapped(
      format("By analogy, {}: {}.", name, simulate::analogy_text(plan.simulated->by_analogy)));
}

std::string pipeline_lines(const plan::PipelineSpec& pipeline) {
  const std::string_view schedule = pipeline::to_string(pipeline.schedule);
  if (pipeline.grids.empty())
    return format("  pipeline: {{stages: {}, schedule: {}}}\n", pipeline.stages, schedule);
  std::vector<std::string> layers;
  for (const std::int64_t number : pipeline.layers) layers.push_back(format("{}", number));
  std::string text = format("  pipeline:\n    stages: {}\n    schedule: {}\n    blocks: [{}]\n",
                            pipeline.stages, schedule, join(layers, ", "));
  text += "    meshes:\n";
  for (const plan::Grid& grid : pipeline.grids)
    text +=
        format("      - {{x: {}, y: {}, z: {}, data: {}}}\n", grid.x, grid.y, grid.z, grid.data);
  return text;
}

std::string lines_to_paste(const job::Ranking& ranking) {
  const PricedPlan& first = ranking.answer.plans.front();
  const plan::Grid& grid = first.spec.grid;
  const plan::PipelineSpec& pipeline = first.spec.pipeline;
  std::string text = format("parallel:\n  strategy: {}\n", plan::to_string(first.spec.strategy));
  if (pipeline.grids.empty())
    text += format("  tensor: {{x: {}, y: {}, z: {}}}\n  data: {}\n", grid.x, grid.y, grid.z,
                   grid.data);
  text += format("  order: [{}]\n", join(grid.order, ", "));
  if (pipeline.stages > 1) text += pipeline_lines(pipeline);
  if (first.spec.layout) text += "  layout: FILE  # of --output FILE\n";
  std::string memory;
  if (ranking.config.plan.checkpointing.is_auto)
    memory += format("  activation_checkpointing: {}\n", plan::to_string(first.spec.checkpointing));
  if (first.spec.cached_gathers == 0 && !ranking.config.plan.cached_gathers)
    memory += "  cached_gathers: none\n";
  if (first.spec.memory_limit != ranking.config.plan.memory_limit)
    memory += format("  limit: {}\n", exact_bytes(*first.spec.memory_limit));
  return memory.empty() ? text : text + "memory:\n" + memory;
}

const PricedPlan& plan_number(const job::Ranking& ranking, std::int64_t number) {
  const auto& plans = ranking.answer.plans;
  if (number < 1 || number > static_cast<std::int64_t>(plans.size()))
    throw UserError(ExitCode::bad_config,
                    format("--explain {}: the list has plans 1 to {}; choose two of them", number,
                           plans.size()));
  return plans[static_cast<std::size_t>(number - 1)];
}

}  // namespace

std::string ranking_text(const job::Ranking& ranking, std::size_t top,
                         const std::optional<TrainingCost>& cost) {
  const search::Answer& answer = ranking.answer;
  const auto is_of_strategy = [](const PricedPlan& plan) {
    return plan.spec.pipeline.grids.empty() && !plan.spec.layout;
  };
  const std::int64_t fits = std::ranges::count_if(answer.plans, is_of_strategy),
                     large = std::ranges::count_if(answer.too_large, is_of_strategy),
                     stuck = std::ranges::count_if(answer.never_ending, is_of_strategy);
  const std::string own_meshes = answer.with_own_meshes == 0
                                     ? ""
                                     : format(", among them those of {} with a grid for each stage",
                                              counted(answer.with_own_meshes, "pipeline"));
  const std::string layouts =
      answer.with_layouts == 0
          ? ""
          : format(", {} with {} of {} own", counted(answer.with_layouts, "plan"),
                   answer.with_layouts == 1 ? "a layout" : "layouts",
                   answer.with_layouts == 1 ? "its" : "their");
  std::string text = wrapped(format(
      "{}: {} of {}, each {} with {}. {}: {} fit, {} need more memory, {} do not divide the model "
      "or "
      "its batch; {} with the orders of ranks{}{}.",
      ranking.cluster.name, counted(ranking.ranks, "rank"), format_grouped(ranking.cluster.ranks()),
      ranking.cluster.device.name, bytes_text(answer.memory_bytes), counted(answer.grids, "grid"),
      format_grouped(fits), format_grouped(large),
      format_grouped(answer.grids - fits - large - stuck), counted(answer.orders, "plan"),
      own_meshes, layouts));
  text += "\n" + table(ranking, top) + "\n" + reason(ranking) +
          stages_text(answer.plans[0], "plan 1") + left_out(ranking) + never_ending(answer) +
          not_searched(answer) + rivals_text(ranking);
  text += wrapped(how_found(answer)) + by_analogy(answer.plans[0], "plan 1");
  if (cost) text += wrapped(to_text(*cost));
  if (const std::string chart = front_chart(answer); !chart.empty()) text += "\n" + chart;
  return text + "\n" + lines_to_paste(ranking);
}

std::string explanation_text(const job::Ranking& ranking, std::int64_t a, std::int64_t b) {
  const PricedPlan *faster = &plan_number(ranking, a), *slower = &plan_number(ranking, b);
  if (search::seconds_beside(*slower, *faster) < search::seconds_beside(*faster, *slower)) {
    std::swap(faster, slower);
    std::swap(a, b);
  }
  const std::string name_a = format("plan {}", a), name_b = format("plan {}", b);
  const auto row = [](const std::string& what, double of_a, double of_b) {
    const double more = of_b - of_a;
    return format("{:<30} {:>10} {:>10} {:>11}\n", what, time_text(of_a), time_text(of_b),
                  more == 0 ? "-" : (more > 0 ? "+" : "-") + format_duration(std::abs(more)));
  };
  std::string text = format("{:<30} {:>10} {:>10} {:>11}\n", "", name_a, name_b, "difference");
  const auto add_rows = [&](const std::vector<search::Spending>& all) {
    for (const search::Spending& one : all) text += row(one.name, one.a, one.b);
  };
  const bool are_simulated = faster->simulated && slower->simulated;
  if (are_simulated) {
    add_rows(search::spendings(*faster, *slower));
    text += row("step, simulated", faster->simulated->step_s, slower->simulated->step_s) + "\n";
  }
  add_rows(search::spendings(faster->price, slower->price));
  text += row("step, by formula", faster->price.step(), slower->price.step());
  text += format("{:<30} {:>10} {:>10}\n\n", "memory, by formula",
                 bytes_text(faster->expected_bytes()), bytes_text(slower->expected_bytes()));
  const auto add_shape = [&](const std::string& name, const plan::PlanSpec& spec) {
    text += wrapped(
        format("{}: {}, order {}", name, search::shape_text(spec), join(spec.grid.order, " ")));
  };
  add_shape(name_a, faster->spec);
  add_shape(name_b, slower->spec);
  text += "\n";
  text += stages_text(*faster, name_a) + stages_text(*slower, name_b);
  text += by_analogy(*faster, name_a) + by_analogy(*slower, name_b);
  text += difference_text(ranking, static_cast<std::size_t>(a), static_cast<std::size_t>(b));
  return text + reason(*faster, a, *slower, b);
}

}  // namespace fourfold::show
