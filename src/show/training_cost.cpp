#include "show/training_cost.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"

namespace fourfold::show {
namespace {

constexpr double seconds_of_hour = 3600, hours_of_day = 24;

/// A run saves by steps or by time, whichever comes first.
double seconds_between(const train::CheckpointSpec& spec, double step_s) {
  constexpr double seconds_of_minute = 60;
  const double by_steps = static_cast<double>(spec.interval_steps) * step_s,
               by_time = spec.interval_minutes * seconds_of_minute;
  if (by_steps == 0 || by_time == 0) return std::max(by_steps, by_time);
  return std::min(by_steps, by_time);
}

Json number_or_none(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

std::string checkpoint_text(const TrainingCost& cost) {
  if (cost.checkpoint_every_s == 0) return "No checkpoints are saved.";
  const std::string size = format_bytes(static_cast<std::int64_t>(cost.checkpoint_bytes));
  if (!cost.checkpoint_s)
    return format(
        "A checkpoint every {} has {}; the machine's file says no rate of its file "
        "system (file_system), so its share of the time is not known.",
        format_duration(cost.checkpoint_every_s), size);
  return format(
      "A checkpoint every {} has {}, {} to write: {:.2g} % of the time if nothing hid it.",
      format_duration(cost.checkpoint_every_s), size, format_duration(*cost.checkpoint_s),
      100 * *cost.checkpoint_share);
}

}  // namespace

TrainingCost training_cost(const job::Ranking& ranking, std::int64_t tokens) {
  const config::Config& config = ranking.config;
  if (config.family().reads != model::Reads::text)
    throw UserError(ExitCode::bad_config,
                    format("--tokens: a {} reads pictures, not tokens; leave it out",
                           config::kind_word(config.kind)));
  const search::PricedPlan& first = ranking.answer.plans.front();
  const auto tokens_of_step =
      static_cast<double>(config.plan.global_batch_size * config.plan_spec().seq_length);
  TrainingCost cost;
  cost.tokens = static_cast<double>(tokens);
  cost.steps = std::ceil(cost.tokens / tokens_of_step);
  cost.seconds = cost.steps * first.seconds();
  const double hours = cost.seconds / seconds_of_hour;
  cost.rank_hours = hours * static_cast<double>(ranking.ranks);
  if (const auto of_node = ranking.cluster.ranks_of_node()) {
    cost.nodes = (ranking.ranks + *of_node - 1) / *of_node;
    cost.node_hours = hours * static_cast<double>(cost.nodes);
  }
  cost.checkpoint_bytes = ranking.checkpoint_bytes;
  cost.checkpoint_every_s = seconds_between(config.train.checkpoint, first.seconds());
  const double rate = ranking.cluster.file_system_bytes_per_s;
  if (rate > 0 && cost.checkpoint_every_s > 0) {
    cost.checkpoint_s = cost.checkpoint_bytes / rate;
    cost.checkpoint_share = *cost.checkpoint_s / (cost.checkpoint_every_s + *cost.checkpoint_s);
  }
  return cost;
}

std::string to_text(const TrainingCost& cost) {
  const std::string hours = cost.node_hours
                                ? format("{} node-hours of {}", format_count(*cost.node_hours),
                                         counted(cost.nodes, "node"))
                                : format("{} rank-hours", format_count(cost.rank_hours));
  return format("{} tokens are {} on plan 1: {:.3g} days, {}. {}", format_count(cost.tokens),
                counted(static_cast<std::int64_t>(cost.steps), "step"),
                cost.seconds / seconds_of_hour / hours_of_day, hours, checkpoint_text(cost));
}

Json to_json(const TrainingCost& cost) {
  return Json::object({{"tokens", cost.tokens},
                       {"steps", cost.steps},
                       {"seconds", cost.seconds},
                       {"nodes", cost.nodes},
                       {"node_hours", number_or_none(cost.node_hours)},
                       {"rank_hours", cost.rank_hours},
                       {"checkpoint_bytes", cost.checkpoint_bytes},
                       {"checkpoint_every_s", cost.checkpoint_every_s},
                       {"checkpoint_s", number_or_none(cost.checkpoint_s)},
                       {"checkpoint_share", number_or_none(cost.checkpoint_share)}});
}

}  // namespace fourfold::show
