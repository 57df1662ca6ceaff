#include "simulate/prediction.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/units.h"
#include "trace/describe_work.h"

namespace fourfold::simulate {
namespace {

/// Adds up the summaries of ranks, each as often as it stands for.
class Sums {
 public:
  explicit Sums(double ranks) : ranks_(ranks) {}

  void add(const trace::RankSummary& rank, double weight) {
    const double share = weight / ranks_;
    prediction_.compute_s += share * rank.compute_s;
    double known_s = 0;
    const auto count = [&](const std::string& what, bool is_exposed, double seconds) {
      known_s += seconds;
      costs_[{is_exposed, what}] += share * seconds;
    };
    for (const trace::Part& entry : rank.parts)
      if (entry.stream == program::math_stream && trace::find_work_class(entry.what) &&
          entry.what != trace::to_string(trace::WorkClass::wait))
        count(entry.what, false, entry.amount.seconds);
    count("gradients alone", false, rank.gradients_s);
    for (const trace::Traffic& traffic : rank.traffic) {
      count(traffic.name, true, traffic.exposed_s);
      prediction_.exposed_s += share * traffic.exposed_s;
      add(traffic, share);
    }
    costs_[{false, "other waits"}] += share * std::max(0.0, rank.step_s - known_s);
  }

  Prediction result() && {
    for (auto& [key, seconds] : costs_)
      if (seconds > 0) prediction_.costs.push_back({key.second, key.first, seconds});
    std::ranges::stable_sort(prediction_.costs, std::ranges::greater{}, &Cost::seconds);
    for (auto& [name, traffic] : traffic_) prediction_.traffic.push_back(std::move(traffic));
    return std::move(prediction_);
  }

 private:
  void add(const trace::Traffic& traffic, double share) {
    trace::Traffic& sum =
        traffic_.try_emplace(traffic.name, trace::Traffic{traffic.name, {}}).first->second;
    sum.amount.seconds += share * traffic.amount.seconds;
    sum.amount.calls += share * traffic.amount.calls;
    sum.amount.bytes += share * traffic.amount.bytes;
    sum.hidden_s += share * traffic.hidden_s;
    sum.exposed_s += share * traffic.exposed_s;
  }

  double ranks_;
  std::map<std::pair<bool, std::string>, double> costs_;
  std::map<std::string, trace::Traffic> traffic_;
  Prediction prediction_;
};

/// Flops of products and attention, by type.
void count_flops(const program::Program& program, double ranks, std::map<DType, double>& flops) {
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<program::Compute>(&instruction.what))
      if (op::is_counted_in_flops(op::work_class(compute->op)))
        flops[compute->dtype] += ranks * op::flops(compute->op, program.operand_shapes(*compute));
}

}  // namespace

Prediction predict(const program::Job& job, const Simulation& simulation) {
  Sums sums(static_cast<double>(simulation.num_ranks));
  // What the ranks of a class do is described once; when each did it is not.
  std::map<std::uint32_t, trace::Timeline> of_class;
  for (const SimulatedRank& rank : simulation.ranks) {
    const program::Program& program = job.classes[rank.of_class].at(simulation.program);
    const auto [place, is_new] = of_class.try_emplace(rank.of_class);
    if (is_new)
      place->second = {simulation.program,
                       {{0, "", "", program.streams, trace::describe_work(program), {}}}};
    trace::RankTimeline& timeline = place->second.ranks.front();
    timeline.steps = {to_step(rank, simulation, timeline.works)};
    sums.add(trace::summarize(place->second, "the simulation").ranks.front(),
             static_cast<double>(rank.stands_for));
  }
  Prediction prediction = std::move(sums).result();
  prediction.step_s = simulation.step_s;
  std::map<DType, double> flops;
  std::vector<double> ranks(job.classes.size(), 0);
  for (const program::Binding& binding : job.ranks) ++ranks[binding.of_class];
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    const program::Bundle& bundle = job.classes[i];
    count_flops(bundle.at(simulation.program), ranks[i], flops);
    prediction.peak_bytes =
        std::max(prediction.peak_bytes, bundle.persistent_bytes + bundle.transient_bytes);
  }
  double most = 0;
  for (const auto& [dtype, count] : flops) {
    prediction.flops += count;
    if (count > most) prediction.dtype = dtype;
    most = std::max(most, count);
  }
  return prediction;
}

std::optional<double> peak_flops_per_s(const machine::Cluster& cluster, DType dtype,
                                       std::int64_t ranks) {
  const machine::ComputeRate* rate = machine::rate_of(cluster.device, dtype);
  if (rate == nullptr) return std::nullopt;
  const std::int64_t devices = (ranks + cluster.ranks_per_device - 1) / cluster.ranks_per_device;
  return rate->flops_per_s * static_cast<double>(devices);
}

std::string place_text(const machine::Cluster& cluster, std::int64_t ranks) {
  std::int64_t count = (ranks + cluster.ranks_per_device - 1) / cluster.ranks_per_device;
  std::string text =
      count == cluster.devices()
          ? (count == 1 ? "its device" : format("all {} devices", format_grouped(count)))
          : format("{} of {} devices", format_grouped(count), format_grouped(cluster.devices()));
  if (cluster.ranks_per_device > 1) text += format(", {} ranks each", cluster.ranks_per_device);
  std::string levels;
  for (const machine::Level& level : cluster.levels) {
    const std::int64_t here = std::min(count, level.units);
    levels += format("{}{} {}", levels.empty() ? ": " : " x ", format_grouped(here), level.name);
    count = (count + level.units - 1) / level.units;
  }
  return text + levels;
}

std::string host_text(const machine::Cluster& cluster, Rank rank) {
  const std::int64_t device = static_cast<std::int64_t>(rank.index()) / cluster.ranks_per_device;
  if (cluster.levels.size() < 2) return format("device {}", device);
  return format("{} {}", cluster.levels[0].name, device / cluster.levels[0].units);
}

}  // namespace fourfold::simulate
