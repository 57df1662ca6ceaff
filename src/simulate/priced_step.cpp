#include "simulate/priced_step.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "base/units.h"

namespace fourfold::simulate {
namespace {

/// Shares of what the devices do at best, none where the machine does not say that; and what a rank
/// does of the model's arithmetic, in TFLOP/s.
struct Shares {
  std::optional<double> mfu, hfu, tflops_of_rank;
};
Shares shares_of(const PricedStep& step, const machine::Cluster& cluster) {
  const Prediction& prediction = step.prediction;
  const auto peak = peak_flops_per_s(cluster, prediction.dtype, step.simulation.num_ranks);
  Shares shares;
  if (step.model_flops && prediction.step_s > 0)
    shares.tflops_of_rank = *step.model_flops / prediction.step_s / 1e12 /
                            static_cast<double>(step.simulation.num_ranks);
  if (!peak || prediction.step_s <= 0) return shares;
  const double most = *peak * prediction.step_s;
  if (step.model_flops) shares.mfu = *step.model_flops / most;
  shares.hfu = step.hardware_flops.value_or(prediction.flops) / most;
  return shares;
}

std::string percent(std::optional<double> share) {
  return share ? format("{:.1f} %", 100 * *share) : "not known";
}

double memory_of_rank(const machine::Cluster& cluster) {
  return cluster.device.memory_bytes / static_cast<double>(cluster.ranks_per_device);
}

bool fits(const PricedStep& step, const machine::Cluster& cluster) {
  return static_cast<double>(step.prediction.peak_bytes) <= memory_of_rank(cluster);
}

std::string biggest_cost(const Prediction& prediction) {
  if (prediction.costs.empty()) return "nothing";
  const Cost& cost = prediction.costs[0];
  return format("{}{}, {:.1f} % of the step", cost.is_exposed ? "waiting for " : "", cost.what,
                100 * cost.seconds / prediction.step_s);
}

/// Instructions that were followed, of the ranks that stand for all.
std::int64_t followed(const PricedStep& step) {
  std::int64_t count = 0;
  for (const SimulatedRank& rank : step.simulation.ranks)
    count += static_cast<std::int64_t>(rank.times.size());
  return count;
}

Json number_or_null(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

std::string first_line(const std::string& text, std::size_t width) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() <= width ? line : line.substr(0, width - 3) + "...";
}

}  // namespace

Rows step_rows(const PricedStep& step, const machine::Cluster& cluster) {
  const Prediction& prediction = step.prediction;
  const std::int64_t ranks = step.simulation.num_ranks;
  const Shares shares = shares_of(step, cluster);
  std::string time = analogy_mark(step.by_analogy) + format_duration(prediction.step_s);
  if (step.items > 0)
    time += format(", {} {}/s", format_count(static_cast<double>(step.items) / prediction.step_s),
                   step.unit);
  if (step.simulation.is_bound)
    time +=
        "; at most: groups of one axis lie differently on the machine, the slowest stands for "
        "all";
  Rows rows = {{"machine", format("{}: {}", cluster.name, cluster.title)},
               {"place", place_text(cluster, ranks)},
               {"job", format("{}, {}", step.name, counted(ranks, "rank"))},
               {"step", time},
               {"most of it", biggest_cost(prediction)},
               {"exposed", format("{} of the step: exchanges that nothing hides",
                                  percent(prediction.exposed_s / prediction.step_s))},
               {"utilization", format("MFU {}, HFU {} of {} peak", percent(shares.mfu),
                                      percent(shares.hfu), to_string(prediction.dtype))},
               {"memory", format("{} of {} a rank{}", format_bytes(prediction.peak_bytes),
                                 format_bytes(static_cast<std::int64_t>(memory_of_rank(cluster))),
                                 fits(step, cluster) ? "" : ": does not fit")}};
  if (!step.by_analogy.empty()) rows.push_back({"by analogy", analogy_text(step.by_analogy)});
  return rows;
}

Row simulation_row(const PricedStep& step) {
  const std::int64_t count = followed(step);
  return {"simulated",
          format("{} of {} ranks, {} instructions in {}: {:.0f} ns each",
                 step.simulation.ranks.size(), format_grouped(step.simulation.num_ranks),
                 format_grouped(count), format_duration(step.elapsed_s),
                 1e9 * step.elapsed_s / static_cast<double>(std::max<std::int64_t>(count, 1)))};
}

Json to_json(const PricedStep& step, const machine::Cluster& cluster) {
  const Shares shares = shares_of(step, cluster);
  const std::int64_t ranks = step.simulation.num_ranks;
  Json json = to_json(step.prediction);
  json.set("machine", cluster.name);
  json.set("place", place_text(cluster, ranks));
  json.set("job", step.name);
  json.set("ranks", ranks);
  json.set("model_tflops_of_rank", number_or_null(shares.tflops_of_rank));
  json.set("mfu", number_or_null(shares.mfu));
  json.set("hfu", number_or_null(shares.hfu));
  json.set("fits", fits(step, cluster));
  json.set("is_bound", step.simulation.is_bound);
  json.set("by_analogy", analogy_json(step.by_analogy));
  json.set("simulated",
           Json::object({{"ranks", step.simulation.ranks.size()},
                         {"instructions", followed(step)},
                         {"instructions_of_all_ranks", step.simulation.num_instructions},
                         {"elapsed_s", step.elapsed_s}}));
  return json;
}

std::string sweep_header(const machine::Cluster& cluster) {
  return format("machine  {}: {}\n\n{:>8}  {:>10}  {:>10}  {:>8}  {:>8}  {:>8}  {:>10}  {}\n",
                cluster.name, cluster.title, "ranks", "step", "items/s", "MFU", "HFU", "exposed",
                "memory", "biggest cost");
}

std::string sweep_line(const PricedStep& step, const machine::Cluster& cluster) {
  const Prediction& prediction = step.prediction;
  const Shares shares = shares_of(step, cluster);
  return format("{:>8}  {:>10}  {:>10}  {:>8}  {:>8}  {:>8}  {:>10}  {}\n",
                format_grouped(step.simulation.num_ranks),
                analogy_mark(step.by_analogy) + format_duration(prediction.step_s),
                format_count(static_cast<double>(step.items) / prediction.step_s),
                percent(shares.mfu), percent(shares.hfu),
                percent(prediction.exposed_s / prediction.step_s),
                format_bytes(prediction.peak_bytes),
                !fits(step, cluster)       ? "does not fit"
                : prediction.costs.empty() ? ""
                                           : prediction.costs[0].what);
}

std::string sweep_refusal(std::int64_t ranks, const std::string& why) {
  return format("{:>8}  {}\n", format_grouped(ranks), first_line(why, 90));
}

}  // namespace fourfold::simulate
