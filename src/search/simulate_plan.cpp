#include "search/simulate_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "pipeline/make_orders.h"
#include "simulate/predict_more.h"
#include "simulate/simulate.h"

namespace fourfold::search {
namespace {

/// Fewer micro-batches are compiled only where that saves as large a part of them.
constexpr double least_saved = 0.4;

std::int64_t micros_of(const plan::PlanSpec& spec) {
  return std::get<plan::Batching>(plan::solve_batching(spec)).accumulation;
}

plan::PlanSpec with_micros(const plan::PlanSpec& spec, std::int64_t micros) {
  plan::PlanSpec result = spec;
  result.global_batch_size = spec.global_batch_size / micros_of(spec) * micros;
  return result;
}

/// The programs of a plan; where they need more memory and its memory is not limited, within that,
/// and the spec says so.
program::Job compile_within(const Question& question, plan::PlanSpec& spec, double memory_bytes) {
  program::Job job = question.compile(spec);
  if (static_cast<double>(bytes_of_rank(job)) <= memory_bytes || spec.memory_limit) return job;
  spec.memory_limit = static_cast<std::int64_t>(memory_bytes);
  return question.compile(spec);
}

/// What is found of a plan, where its programs are of fewer micro-batches than it has. The
/// operations `by_analogy` are those of its micro-batches.
Simulated found(simulate::Prediction prediction, std::vector<simulate::ByAnalogy> by_analogy,
                bool is_bound, std::int64_t micros, std::int64_t bytes, double memory_bytes) {
  Simulated result;
  result.by_analogy = std::move(by_analogy);
  result.step_s = prediction.step_s;
  result.exposed_s = prediction.exposed_s;
  result.costs = std::move(prediction.costs);
  result.is_bound = is_bound;
  result.micros = micros;
  result.bytes = bytes;
  result.fits = static_cast<double>(bytes) <= memory_bytes;
  return result;
}

/// Looks for a number of micro-batches that says what all of them take.
class FewMicros {
 public:
  FewMicros(const Question& question, plan::PlanSpec& spec, double memory_bytes)
      : question_(question),
        spec_(spec),
        memory_bytes_(memory_bytes),
        micros_(micros_of(spec)),
        meshes_(spec.pipeline.stages / spec.pipeline.stages_per_mesh) {}

  std::optional<Simulated> run() {
    const pipeline::WeightDelay& delay = spec_.pipeline.weight_delay;
    if (meshes_ == 1 || delay.kind == pipeline::WeightDelay::Kind::automatic) return std::nullopt;
    // What all micro-batches keep at once follows from no fewer.
    if (spec_.pipeline.schedule == pipeline::Schedule::gpipe) return std::nullopt;
    // A mesh is filled once, and shows some cycles before its last forward task.
    constexpr std::int64_t shown = 8;
    const std::int64_t filled = most_in_flight() + delay.micros, tried = meshes_ + shown;
    const auto most = static_cast<std::int64_t>((1 - least_saved) * static_cast<double>(micros_));
    for (std::int64_t seen = tried; filled + seen <= most; seen *= 2)
      if (auto result = with(filled + seen)) return result;
    return std::nullopt;
  }

 private:
  /// On the mesh that keeps most.
  std::int64_t most_in_flight() const {
    const plan::PipelineSpec& pipeline = spec_.pipeline;
    const auto made = pipeline::in_flight_by_mesh(
        {.schedule = pipeline.schedule, .stages_per_mesh = pipeline.stages_per_mesh},
        static_cast<std::size_t>(meshes_), micros_);
    const auto* in_flight = std::get_if<std::vector<std::int64_t>>(&made);
    return in_flight == nullptr ? micros_ : std::ranges::max(*in_flight);
  }

  std::optional<Simulated> with(std::int64_t micros) {
    // Schedules that share meshes take as many micro-batches at a time as there are meshes.
    if (spec_.pipeline.stages_per_mesh > 1) micros += (micros_ - micros) % meshes_;
    plan::PlanSpec few = with_micros(spec_, micros);
    const program::Job job = compile_within(question_, few, memory_bytes_);
    const auto simulation = simulate::simulate(job, op::ProgramKind::train, *question_.cluster);
    auto prediction = simulate::predict_more(job, simulation, micros_);
    if (!prediction) return std::nullopt;
    spec_.memory_limit = few.memory_limit;
    auto by_analogy = simulate::priced_by_analogy(job, simulation, *question_.cluster);
    for (simulate::ByAnalogy& one : by_analogy)
      one.seconds *= static_cast<double>(micros_) / static_cast<double>(micros);
    return found(std::move(*prediction), std::move(by_analogy), simulation.is_bound, micros,
                 bytes_of_rank(job), memory_bytes_);
  }

  const Question& question_;
  plan::PlanSpec& spec_;
  double memory_bytes_;
  std::int64_t micros_, meshes_;
};

}  // namespace

std::int64_t bytes_of_rank(const program::Job& job) {
  std::int64_t most = 0;
  for (const program::Bundle& bundle : job.classes)
    most = std::max(most, bundle.persistent_bytes + bundle.transient_bytes);
  return most;
}

Simulated simulate_whole(const Question& question, plan::PlanSpec& spec, double memory_bytes) {
  const program::Job job = compile_within(question, spec, memory_bytes);
  const simulate::Simulation simulation =
      simulate::simulate(job, op::ProgramKind::train, *question.cluster);
  return found(simulate::predict(job, simulation),
               simulate::priced_by_analogy(job, simulation, *question.cluster), simulation.is_bound,
               micros_of(spec), bytes_of_rank(job), memory_bytes);
}

Simulated simulate_plan(const Question& question, plan::PlanSpec& spec, double memory_bytes) {
  if (auto result = FewMicros(question, spec, memory_bytes).run()) return std::move(*result);
  return simulate_whole(question, spec, memory_bytes);
}

}  // namespace fourfold::search
