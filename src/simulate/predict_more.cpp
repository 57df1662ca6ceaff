#include "simulate/predict_more.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "simulate/cost_sums.h"

namespace fourfold::simulate {
namespace {

using program::Task;
using program::TaskKind;

/// Cycles whose times differ by less are alike; messages that meet on a link make them waver.
constexpr double likeness = 5e-3;

/// Meshes may differ by more for a while, as a faster one works off what waits for it: the step
/// then grows by a period between theirs.
constexpr double likeness_of_meshes = 1e-2;

/// So many cycles in a row are alike.
constexpr std::size_t cycles_seen = 3;

constexpr program::StreamId math_stream{std::size_t{0}};

/// When the tasks of one pass of a rank ended, those that it did while the pipeline was full.
struct Ends {
  std::vector<double> seconds;
  std::size_t per_micro = 1;  // so many belong to a micro-batch: one for each stage of the mesh

  /// How long the last cycles of so many micro-batches took, if all of them took as long.
  std::optional<double> last(std::size_t micros) const {
    const std::size_t lag = micros * per_micro;
    if (seconds.size() < cycles_seen * lag + 1) return std::nullopt;
    const double all = seconds.back() - seconds[seconds.size() - 1 - cycles_seen * lag];
    double least = all, most = 0;
    for (std::size_t i = seconds.size() - (cycles_seen - 1) * lag; i < seconds.size(); ++i) {
      const double took = seconds[i] - seconds[i - lag];
      least = std::min(least, took);
      most = std::max(most, took);
    }
    return most - least <= likeness * most ? std::optional(all) : std::nullopt;
  }
};

double end_of(const Task& task, const program::Program& program, const SimulatedRank& rank) {
  double end = 0;
  for (std::size_t i = task.begin; i < task.end; ++i)
    if (program.instructions[i].stream == math_stream) end = std::max(end, rank.times[i].end_s);
  return end;
}

/// The tasks of a kind that compute anything, in their order, with the time when each ended.
struct Pass {
  std::vector<std::size_t> places;
  std::vector<double> ends;
};

Pass pass_of(TaskKind kind, const program::Program& program, const SimulatedRank& rank) {
  Pass pass;
  for (std::size_t place = 0; place < program.tasks.size(); ++place) {
    const Task& task = program.tasks[place];
    const double end = task.kind == kind && task.micro ? end_of(task, program, rank) : 0;
    if (end == 0) continue;
    pass.places.push_back(place);
    pass.ends.push_back(end);
  }
  return pass;
}

std::int64_t micros_of(const program::Program& program) {
  std::int64_t micros = 0;
  for (const Task& task : program.tasks) micros = std::max(micros, task.micro.value_or(-1) + 1);
  return micros;
}

/// The backward tasks of a rank while forward ones are between them; else both passes. The first
/// stage may have nothing to do there but gradients of weights, in tasks of their own.
std::vector<Ends> passes_of(const program::Program& program, const SimulatedRank& rank) {
  const auto micros = static_cast<std::size_t>(micros_of(program));
  const Pass forward = pass_of(TaskKind::forward, program, rank);
  Pass backward = pass_of(TaskKind::backward, program, rank);
  if (backward.ends.empty()) backward = pass_of(TaskKind::weight_backward, program, rank);
  require(!forward.ends.empty() && !backward.ends.empty(),
          "a training step has forward and backward tasks");
  const Ends of_forward{forward.ends, forward.ends.size() / micros};
  Ends of_backward{backward.ends, backward.ends.size() / micros};
  if (backward.places.front() > forward.places.back()) return {of_forward, of_backward};
  const auto full = std::ranges::upper_bound(backward.places, forward.places.back());
  of_backward.seconds.resize(static_cast<std::size_t>(full - backward.places.begin()));
  return {of_backward};
}

/// The passes of all ranks that were followed, by rank. A pipeline is full until the first of its
/// meshes has no forward task left: what comes in fewer after that, others do faster.
std::vector<std::vector<Ends>> all_passes(const program::Job& job, const Simulation& simulation) {
  std::vector<std::vector<Ends>> all;
  for (const SimulatedRank& rank : simulation.ranks)
    all.push_back(passes_of(job.classes[rank.of_class].at(simulation.program), rank));
  std::size_t full = std::numeric_limits<std::size_t>::max();  // micro-batches
  for (const std::vector<Ends>& passes : all)
    if (passes.size() == 1) full = std::min(full, passes[0].seconds.size() / passes[0].per_micro);
  for (std::vector<Ends>& passes : all)
    if (passes.size() == 1) passes[0].seconds.resize(full * passes[0].per_micro);
  return all;
}

/// The period of a cycle of so many micro-batches: that of the slowest mesh.
std::optional<double> period_of(const std::vector<std::vector<Ends>>& passes, std::size_t micros) {
  double least = 0, most = 0;
  for (std::size_t rank = 0; rank < passes.size(); ++rank) {
    double all = 0;
    for (const Ends& pass : passes[rank]) {
      const auto took = pass.last(micros);
      if (!took) return std::nullopt;
      all += *took;
    }
    least = rank == 0 ? all : std::min(least, all);
    most = std::max(most, all);
  }
  if (most - least > likeness_of_meshes * most) return std::nullopt;
  return most / static_cast<double>(cycles_seen * micros);
}

std::optional<Cycle> find_cycle(const std::vector<std::vector<Ends>>& passes) {
  std::size_t longest = 0;
  for (const std::vector<Ends>& of_rank : passes)
    for (const Ends& pass : of_rank) longest = std::max(longest, pass.seconds.size());
  for (std::size_t micros = 1; cycles_seen * micros < longest; ++micros)
    if (const auto period = period_of(passes, micros))
      return Cycle{static_cast<std::int64_t>(micros), *period};
  return std::nullopt;
}

/// What all ranks compute of a micro-batch.
double flops_of_micro(const program::Job& job, const Simulation& simulation) {
  std::vector<double> of_class(job.classes.size(), 0);
  for (std::size_t i = 0; i < of_class.size(); ++i) {
    const program::Program& program = job.classes[i].at(simulation.program);
    for (const Task& task : program.tasks)
      for (std::size_t at = task.begin; task.micro == 0 && at < task.end; ++at)
        of_class[i] += counted_flops(program, program.instructions[at]);
  }
  double flops = 0;
  for (const program::Binding& binding : job.ranks) flops += of_class[binding.of_class];
  return flops;
}

std::int64_t to_ns(double seconds) {
  return std::llround(seconds * 1e9);
}

}  // namespace

std::optional<Cycle> find_cycle(const program::Job& job, const Simulation& simulation) {
  return find_cycle(all_passes(job, simulation));
}

std::optional<Prediction> predict_more(const program::Job& job, const Simulation& simulation,
                                       std::int64_t micros) {
  const std::vector<std::vector<Ends>> passes = all_passes(job, simulation);
  const auto cycle = find_cycle(passes);
  if (!cycle) return std::nullopt;
  const std::int64_t more = micros - micros_of(job.classes.front().at(simulation.program));
  require(more >= 0, "what is asked has no fewer micro-batches than what was simulated");
  const auto micros_of_cycle = static_cast<std::size_t>(cycle->micros);
  const double times =
      static_cast<double>(more) / static_cast<double>(cycles_seen * micros_of_cycle);
  CostSums sums(job, simulation);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const SimulatedRank& rank = simulation.ranks[i];
    sums.add(rank, {0, to_ns(simulation.step_s)}, 1);
    for (const Ends& pass : passes[i]) {
      const double end = pass.seconds.back(), took = *pass.last(micros_of_cycle);
      sums.add(rank, {to_ns(end - took), to_ns(end)}, times);
    }
  }
  Prediction prediction = std::move(sums).result();
  prediction.step_s = simulation.step_s + static_cast<double>(more) * cycle->period_s;
  add_work(job, simulation, prediction);
  prediction.flops += static_cast<double>(more) * flops_of_micro(job, simulation);
  return prediction;
}

}  // namespace fourfold::simulate
