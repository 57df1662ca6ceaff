#include "simulate/cost_sums.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "trace/describe_work.h"

namespace fourfold::simulate {
namespace {

/// What of a step lies in that time.
trace::Step stretch_of(trace::Step step, trace::Interval when) {
  std::erase_if(step.spans, [&](const trace::Span& span) {
    return span.when.end_ns < when.begin_ns || span.when.begin_ns > when.end_ns;
  });
  for (trace::Span& span : step.spans)
    span.when = {std::max(span.when.begin_ns, when.begin_ns),
                 std::min(span.when.end_ns, when.end_ns)};
  step.whole = when;
  return step;
}

}  // namespace

void CostSums::add(const SimulatedRank& rank, trace::Interval when, double times) {
  const program::Program& program = job_.classes[rank.of_class].at(simulation_.program);
  const auto [place, is_new] = of_class_.try_emplace(rank.of_class);
  trace::RankTimeline& timeline = place->second;
  if (is_new) {
    timeline.streams = program.streams;
    timeline.works = trace::describe_work(program, trace::Words::of_kinds);
  }
  timeline.steps = {stretch_of(to_step(rank, simulation_, timeline.works), when)};
  add(trace::summarize_alone(timeline),
      times * static_cast<double>(rank.stands_for) / static_cast<double>(simulation_.num_ranks));
}

void CostSums::add(const trace::RankSummary& rank, double share) {
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
    trace::Traffic& sum =
        traffic_.try_emplace(traffic.name, trace::Traffic{traffic.name, {}}).first->second;
    sum.amount.seconds += share * traffic.amount.seconds;
    sum.amount.calls += share * traffic.amount.calls;
    sum.amount.bytes += share * traffic.amount.bytes;
    sum.hidden_s += share * traffic.hidden_s;
    sum.exposed_s += share * traffic.exposed_s;
  }
  costs_[{false, "other waits"}] += share * std::max(0.0, rank.step_s - known_s);
}

Prediction CostSums::result() && {
  for (auto& [key, seconds] : costs_)
    if (seconds > 0) prediction_.costs.push_back({key.second, key.first, seconds});
  std::ranges::stable_sort(prediction_.costs, std::ranges::greater{}, &Cost::seconds);
  for (auto& [name, traffic] : traffic_) prediction_.traffic.push_back(std::move(traffic));
  return std::move(prediction_);
}

double counted_flops(const program::Program& program, const program::Instruction& instruction) {
  const auto* compute = std::get_if<program::Compute>(&instruction.what);
  if (compute == nullptr || !op::is_counted_in_flops(op::work_class(compute->op))) return 0;
  return op::flops(compute->op, program.operand_shapes(*compute));
}

void add_work(const program::Job& job, const Simulation& simulation, Prediction& prediction) {
  std::map<DType, double> flops;
  std::vector<double> ranks(job.classes.size(), 0);
  for (const program::Binding& binding : job.ranks) ++ranks[binding.of_class];
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    const program::Bundle& bundle = job.classes[i];
    const program::Program& program = bundle.at(simulation.program);
    for (const program::Instruction& instruction : program.instructions)
      if (const double count = counted_flops(program, instruction); count > 0)
        flops[std::get<program::Compute>(instruction.what).dtype] += ranks[i] * count;
    prediction.peak_bytes =
        std::max(prediction.peak_bytes, bundle.persistent_bytes + bundle.transient_bytes);
  }
  double most = 0;
  for (const auto& [dtype, count] : flops) {
    prediction.flops += count;
    if (count > most) prediction.dtype = dtype;
    most = std::max(most, count);
  }
}

}  // namespace fourfold::simulate
