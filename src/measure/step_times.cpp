#include "measure/step_times.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <variant>

#include "base/error.h"
#include "run/cpu.h"
#include "trace/interval.h"

namespace fourfold::measure {
namespace {

constexpr std::int64_t warm_up_steps = 2, least_steps = 10, most_steps = 400;

/// Samples for any model: tokens or labels that follow no order, pixels of one grey.
class MadeUpSamples : public run::Feeder {
 public:
  explicit MadeUpSamples(std::int64_t num_labels) : num_labels_(num_labels) {}

  void feed(const Input& input, const run::Samples& /*samples*/,
            std::span<std::byte> into) override {
    if (input.dtype == DType::i32)
      fill(into, [this](std::size_t i) {
        return static_cast<std::int32_t>(static_cast<std::int64_t>(i) * large_prime % num_labels_);
      });
    else if (input.dtype == DType::f32)
      fill(into, [](std::size_t) { return 0.5F; });
    else
      std::ranges::fill(into, std::byte{0});
  }

 private:
  template <class Value>
  static void fill(std::span<std::byte> into, Value&& value) {
    const auto example = value(0);
    for (std::size_t i = 0; i < into.size() / sizeof example; ++i) {
      const auto one = value(i);
      std::memcpy(into.data() + i * sizeof one, &one, sizeof one);
    }
  }

  static constexpr std::int64_t large_prime = 1'000'003;
  std::int64_t num_labels_;
};

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double trace_now_s() {
  return 1e-9 * static_cast<double>(trace::now_ns());
}

/// The steps of one bundle, on this rank.
class StepRuns {
 public:
  StepRuns(const TimedStep& step, int threads)
      : bundle_(*step.bundle),
        train_(place_of(op::ProgramKind::train)),
        samples_(step.num_labels),
        backend_({.threads = threads}) {
    backend_.bind(bundle_);
    run(place_of(op::ProgramKind::init));
    intervals_.resize(program().instructions.size());
  }

  const program::Program& program() const { return bundle_.programs[train_]; }

  void step() {
    backend_.trace_next(intervals_);
    run(train_);
    backend_.trace_next({});
  }
  /// Its time in the last step.
  double seconds(std::size_t instruction) const {
    return 1e-9 * static_cast<double>(intervals_[instruction].duration_ns());
  }

 private:
  std::size_t place_of(op::ProgramKind kind) const {
    const auto found = std::ranges::find(bundle_.programs, kind, &program::Program::kind);
    require(found != bundle_.programs.end(), "a bundle of training has `init` and `train`");
    return static_cast<std::size_t>(found - bundle_.programs.begin());
  }
  void run(std::size_t place) {
    const run::ProgramId id(place);
    backend_.begin(id, {.step = num_runs_++, .seed = 1}, &samples_);
    backend_.issue_all(id, bundle_.programs[place].instructions.size());
    backend_.finish();
  }

  const program::Bundle& bundle_;
  std::size_t train_;
  MadeUpSamples samples_;
  run::CpuBackend backend_;
  std::vector<trace::Interval> intervals_;
  std::int64_t num_runs_ = 0;
};

/// The mean time of a step while all ranks, or the first one of each device alone, run some for
/// about so long, after some that warm up. `after` follows each step that counts.
template <class After>
double run_steps(comm::World& world, StepRuns& runs, const StepTimesOptions& options,
                 bool is_active, After&& after) {
  world.barrier();
  double begin_s = trace_now_s();
  for (std::int64_t i = 0; is_active && i < warm_up_steps; ++i) runs.step();
  const double warm_up_s = (trace_now_s() - begin_s) / static_cast<double>(warm_up_steps);
  std::vector<double> wanted = {is_active ? options.seconds / std::max(warm_up_s, 1e-9) : 0};
  world.all_reduce(wanted, Reduction::max);  // as many on all ranks
  const std::int64_t steps =
      std::clamp(static_cast<std::int64_t>(std::ceil(wanted[0])), least_steps, most_steps);
  begin_s = trace_now_s();
  for (std::int64_t i = 0; is_active && i < steps; ++i) {
    runs.step();
    after();
  }
  const double step_s = (trace_now_s() - begin_s) / static_cast<double>(steps);
  world.barrier();
  return step_s;
}

/// Seconds of the instructions of one step, by their index; 0 for those that compute nothing.
std::vector<double> time_step(comm::World& world, StepRuns& runs, const StepTimesOptions& options) {
  const program::Program& program = runs.program();
  std::vector<std::size_t> computations;
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    if (std::holds_alternative<program::Compute>(program.instructions[i].what))
      computations.push_back(i);
  std::vector<std::vector<double>> times(computations.size());
  const auto place = static_cast<std::int64_t>(world.rank().index());
  const bool is_first_of_device = place % options.ranks_per_device == 0;
  run_steps(world, runs, options, is_first_of_device, [&] {
    for (std::size_t k = 0; k < computations.size(); ++k)
      times[k].push_back(runs.seconds(computations[k]));
  });
  std::vector<double> seconds(program.instructions.size(), 0);
  if (is_first_of_device)
    for (std::size_t k = 0; k < computations.size(); ++k)
      seconds[computations[k]] = median_of(times[k]);
  if (options.ranks_per_device > 1) {
    const double step_s = run_steps(world, runs, options, true, [] {});
    // They are all zero on the other ranks.
    const double own_s = std::max(1e-9, std::accumulate(seconds.begin(), seconds.end(), 0.));
    const double device_s = step_s / static_cast<double>(options.ranks_per_device) -
                            options.instruction_s * static_cast<double>(computations.size());
    for (double& one : seconds) one *= std::max(1., device_s / own_s);
  }
  world.all_reduce(seconds, Reduction::sum);
  const double devices =
      static_cast<double>(world.size()) / static_cast<double>(options.ranks_per_device);
  for (double& one : seconds) one /= devices;
  return seconds;
}

}  // namespace

std::vector<CallTime> time_steps(comm::World& world, std::span<const TimedStep> steps,
                                 const StepTimesOptions& options) {
  std::vector<CallTime> result;
  for (const TimedStep& step : steps) {
    StepRuns runs(step, options.threads);
    const std::vector<double> seconds = time_step(world, runs, options);
    const program::Program& program = runs.program();
    for (std::size_t i = 0; i < program.instructions.size(); ++i)
      if (const auto* compute = std::get_if<program::Compute>(&program.instructions[i].what))
        result.push_back(
            {{{compute->op, compute->dtype, program.operand_shapes(*compute), options.threads},
              compute->implementation,
              1},
             seconds[i]});
  }
  return result;
}

}  // namespace fourfold::measure
