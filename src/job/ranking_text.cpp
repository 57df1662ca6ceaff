#include "job/ranking_text.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "search/explain.h"

namespace fourfold::job {
namespace {

using search::PricedPlan;

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<std::int64_t>(bytes));
}

/// A time of a table; "-" for none.
std::string time_text(double seconds) {
  return seconds > 0 ? format_duration(seconds) : "-";
}

std::string plan_line(std::size_t number, const PricedPlan& plan) {
  const plan::Grid& grid = plan.spec.grid;
  const search::Price& price = plan.price;
  return format("{:>4} {:>5} {:>5} {:>5} {:>5} {:<12} {:>8} {:>8} {:>7} {:>8} {:>9} {:>9}\n",
                number, grid.x, grid.y, grid.z, grid.data.value_or(1), join(grid.order, " "),
                format_duration(price.all()), format_duration(price.compute()),
                time_text(price.weights), time_text(price.gradients), time_text(price.activations),
                bytes_text(plan.demand.memory.all()));
}

std::string table(const Ranking& ranking, std::size_t top) {
  std::string text = format(
      "{:>4} {:>5} {:>5} {:>5} {:>5} {:<12} {:>8} {:>8} {:>7} {:>8} {:>9} {:>9}\n", "plan", "x",
      "y", "z", "data", "order", "step", "compute", "weights", "grads", "activat.", "memory");
  const auto& plans = ranking.answer.plans;
  for (std::size_t i = 0; i < std::min(top, plans.size()); ++i) text += plan_line(i + 1, plans[i]);
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
  const double gained = b.price.all() - a.price.all();
  if (gained > 0 && gained < little * b.price.all())
    text += "; this is below a hundredth of the step, less than closed forms can tell";
  return wrapped(text + ".");
}

std::string reason(const Ranking& ranking) {
  const auto& plans = ranking.answer.plans;
  return plans.size() == 1 ? "One grid fits.\n" : reason(plans[0], 1, plans[1], 2);
}

std::string left_out(const Ranking& ranking) {
  const search::Answer& answer = ranking.answer;
  if (answer.too_large.empty()) return "";
  const PricedPlan& least = answer.too_large.front();
  std::vector<std::string> tensors;
  for (const search::LargeTensor& tensor : least.demand.largest)
    tensors.push_back(format("{} {}", tensor.name, bytes_text(tensor.bytes)));
  const auto count = static_cast<std::int64_t>(answer.too_large.size());
  return wrapped(
      format("Left out: {} that {} more than the {} of a rank; the least is {} ({}), whose "
             "largest tensors are {}.",
             counted(count, "grid"), count == 1 ? "needs" : "need", bytes_text(answer.memory_bytes),
             bytes_text(least.demand.memory.all()), search::grid_text(least.spec.grid),
             join(tensors, ", ")));
}

std::string rivals_text(const Ranking& ranking) {
  std::vector<std::string> rivals;
  for (const search::Rival& rival : ranking.rivals)
    rivals.push_back(format("{} {}", rival.name, format_duration(rival.seconds)));
  return wrapped(
      format("The linears' traffic alone, by closed form: {} for plan 1 by AxoNN's "
             "equations; by other methods, whether they fit or not: {}.",
             format_duration(ranking.answer.plans[0].linears_s), join(rivals, ", ")));
}

std::string lines_to_paste(const Ranking& ranking) {
  const PricedPlan& first = ranking.answer.plans.front();
  const plan::Grid& grid = first.spec.grid;
  std::string text = format(
      "parallel:\n  strategy: {}\n  tensor: {{x: {}, y: {}, z: {}}}\n  data: {}\n  order: [{}]\n",
      plan::to_string(first.spec.strategy), grid.x, grid.y, grid.z, grid.data.value_or(1),
      join(grid.order, ", "));
  if (ranking.config.plan.checkpointing.is_auto)
    text += format("memory:\n  activation_checkpointing: {}\n",
                   plan::to_string(first.spec.checkpointing));
  return text;
}

const PricedPlan& plan_number(const Ranking& ranking, std::int64_t number) {
  const auto& plans = ranking.answer.plans;
  if (number < 1 || number > static_cast<std::int64_t>(plans.size()))
    throw UserError(ExitCode::bad_config,
                    format("--explain {}: the list has plans 1 to {}; choose two of them", number,
                           plans.size()));
  return plans[static_cast<std::size_t>(number - 1)];
}

Json plan_json(std::size_t number, const PricedPlan& plan) {
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
  return Json::object({{"plan", number},
                       {"x", grid.x},
                       {"y", grid.y},
                       {"z", grid.z},
                       {"data", grid.data.value_or(1)},
                       {"order", Json::array_of(grid.order)},
                       {"micro_batch_size", plan.spec.micro_batch_size},
                       {"accumulation", plan.accumulation},
                       {"activation_checkpointing", plan::to_string(plan.spec.checkpointing)},
                       {"seconds", Json::object({{"step", price.all()},
                                                 {"products", price.products},
                                                 {"other_rows", price.others},
                                                 {"weights", price.weights},
                                                 {"gradients", price.gradients},
                                                 {"activations", price.activations},
                                                 {"axonn_equation_9", plan.linears_s}})},
                       {"memory_bytes", Json::object({{"all", memory.all()},
                                                      {"parameters", memory.parameters},
                                                      {"rounded_parameters", memory.rounded},
                                                      {"optimizer", memory.optimizer},
                                                      {"gradients", memory.gradients},
                                                      {"weights_in_use", memory.weights},
                                                      {"activations", memory.activations}})},
                       {"traffic", std::move(traffic)}});
}

}  // namespace

std::string ranking_text(const Ranking& ranking, std::size_t top) {
  const search::Answer& answer = ranking.answer;
  const auto fits = static_cast<std::int64_t>(answer.plans.size()),
             large = static_cast<std::int64_t>(answer.too_large.size());
  std::string text = wrapped(format(
      "{}: {} of {}, each {} with {}. {}: {} fit, {} need more memory, {} do not divide the model "
      "or "
      "its batch; {} with the orders of ranks.",
      ranking.cluster.name, counted(ranking.ranks, "rank"), format_grouped(ranking.cluster.ranks()),
      ranking.cluster.device.name, bytes_text(answer.memory_bytes), counted(answer.grids, "grid"),
      format_grouped(fits), format_grouped(large), format_grouped(answer.grids - fits - large),
      counted(answer.orders, "plan")));
  text += "\n" + table(ranking, top) + "\n" + reason(ranking) + left_out(ranking) +
          rivals_text(ranking);
  return text + "A step's time is the sum of what it computes and sends: nothing is hidden.\n\n" +
         lines_to_paste(ranking);
}

std::string explanation_text(const Ranking& ranking, std::int64_t a, std::int64_t b) {
  const PricedPlan *faster = &plan_number(ranking, std::min(a, b)),
                   *slower = &plan_number(ranking, std::max(a, b));
  const std::string name_a = format("plan {}", std::min(a, b)),
                    name_b = format("plan {}", std::max(a, b));
  std::string text = format("{:<12} {:>10} {:>10} {:>10}\n", "", name_a, name_b, "difference");
  for (const search::Spending& one : search::spendings(faster->price, slower->price))
    text += format("{:<12} {:>10} {:>10} {:>9.3f} s\n", one.name, time_text(one.a),
                   time_text(one.b), one.b - one.a);
  text += format("{:<12} {:>10} {:>10} {:>9.3f} s\n", "step", format_duration(faster->price.all()),
                 format_duration(slower->price.all()), slower->price.all() - faster->price.all());
  text += format("{:<12} {:>10} {:>10}\n\n", "memory", bytes_text(faster->demand.memory.all()),
                 bytes_text(slower->demand.memory.all()));
  text += format("{}: {}, order {}\n{}: {}, order {}\n\n", name_a,
                 search::grid_text(faster->spec.grid), join(faster->spec.grid.order, " "), name_b,
                 search::grid_text(slower->spec.grid), join(slower->spec.grid.order, " "));
  return text + reason(*faster, std::min(a, b), *slower, std::max(a, b));
}

Json ranking_json(const Ranking& ranking, std::size_t top) {
  const search::Answer& answer = ranking.answer;
  Json plans = Json::array(), rivals = Json::array();
  for (std::size_t i = 0; i < std::min(top, answer.plans.size()); ++i)
    plans.push(plan_json(i + 1, answer.plans[i]));
  for (const search::Rival& rival : ranking.rivals)
    rivals.push(Json::object({{"name", rival.name}, {"seconds", rival.seconds}}));
  return Json::object({{"machine", ranking.cluster.name},
                       {"ranks", ranking.ranks},
                       {"memory_bytes", answer.memory_bytes},
                       {"grids", answer.grids},
                       {"plans_priced", answer.orders},
                       {"fitting", answer.plans.size()},
                       {"too_large", answer.too_large.size()},
                       {"plans", std::move(plans)},
                       {"rivals", std::move(rivals)}});
}

}  // namespace fourfold::job
