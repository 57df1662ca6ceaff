#include "verify/equal.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include "base/cores.h"
#include "base/error.h"
#include "base/format.h"
#include "base/parallel.h"
#include "base/units.h"
#include "verify/equal_check.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

constexpr std::uint64_t fewest_keys = 2, most_keys = 8;
/// Another function may pass with a probability of at most 2 to the power of minus this.
constexpr double wanted_bits = 50;

Fault fault_of(std::string message) {
  return {std::string(equal_rule), std::nullopt, std::move(message), std::nullopt};
}

/// What running rests on: shapes, addresses and operands of each class.
void check_runnable(const Job& job, std::vector<Fault>& faults) {
  for (const Bundle& bundle : job.classes)
    for (const Program& program : bundle.programs) {
      Report report(program);
      if (check_structure(program, report)) check_operands(program, report);
      const std::vector<Fault> found = report.take();
      faults.insert(faults.end(), found.begin(), found.end());
    }
}

class Comparison {
 public:
  Comparison(const Job& job, const Job& specification, const EqualOptions& options)
      : options_(options),
        job_(job),
        specification_(specification),
        state_(TensorsInCommon::Which::state, job_, 0, specification_, 0) {}

  Equal run() {
    find_programs();
    if (const auto problem = first_problem()) {
      equal_.faults.push_back(fault_of(*problem));
      return std::move(equal_);
    }
    check_told();
    find_keys();
    for (int key = 0; key < equal_.keys; ++key) add_tasks(static_cast<std::uint64_t>(key));
    std::vector<Outcome> outcomes(tasks_.size());
    for_each_on_all_cores(tasks_.size(),
                          [&](std::size_t i) { outcomes[i] = carry_out(tasks_[i]); });
    for (const Outcome& outcome : outcomes) take(outcome);
    count_elements();
    return std::move(equal_);
  }

 private:
  struct Task {
    std::optional<PlantIn> planted;  // none: the scenario as it is
    std::uint64_t key;
    Scenario scenario;
  };
  struct Outcome {
    FoundFaults found;
    std::vector<std::string> notes;
  };

  void find_programs() {
    const auto lacks = [&](op::ProgramKind kind, std::string_view who) {
      equal_.notes.push_back(
          format("{}: not compared, as the {} has no such program", op::to_string(kind), who));
    };
    for (const op::ProgramKind kind : op::all_program_kinds) {
      const auto here = job_.place_of(kind), there = specification_.place_of(kind);
      if (here && there) {
        programs_.push_back({kind, *here, *there,
                             TensorsInCommon(TensorsInCommon::Which::outputs, job_, *here,
                                             specification_, *there)});
        equal_.programs.push_back(kind);
      } else if (here || there) {
        lacks(kind, here ? "specification" : "job");
      }
    }
  }

  /// Why the two jobs cannot be compared: they are of different models or batches.
  std::optional<std::string> first_problem() const {
    std::vector<std::string> problems = state_.problems();
    for (const CommonProgram& program : programs_) {
      const auto& more = program.outputs.problems();
      problems.insert(problems.end(), more.begin(), more.end());
      add_problems(program, problems);
    }
    if (programs_.empty()) problems.emplace_back("no program is of a kind that the job has, too");
    if (problems.empty()) return std::nullopt;
    return format("the specification is of another run: {}{}", problems.front(),
                  problems.size() == 1 ? "" : format("; and {} more", problems.size() - 1));
  }
  void add_problems(const CommonProgram& program, std::vector<std::string>& problems) const {
    const Program& whole = specification_.program(0, program.specification_place);
    const auto samples_of = [](const Program& of) { return of.feeds.micros * of.feeds.samples; };
    for (std::size_t rank = 0; rank < job_.num_ranks(); ++rank) {
      const Program& own = job_.program(rank, program.job_place);
      // A rank that is fed nothing may have any number of samples.
      if (!own.inputs.empty() && samples_of(own) != samples_of(whole))
        problems.push_back(format("{} has {} samples there and {} here",
                                  op::to_string(program.kind), samples_of(whole), samples_of(own)));
      for (const Input& input : own.inputs)
        if (std::ranges::find(whole.inputs, input) == whole.inputs.end())
          problems.push_back(format("{} is not fed the {} of rank {}", op::to_string(program.kind),
                                    input.name, rank));
    }
  }

  /// Every rank tells its host what the specification tells, and nothing else.
  void check_told() {
    const auto names_of = [](const Program& program) {
      std::set<std::string_view> names;
      for (const ResultField& field : result_fields_of(program)) names.insert(field.field.name);
      return names;
    };
    for (const CommonProgram& program : programs_) {
      const auto expected = names_of(specification_.program(0, program.specification_place));
      for (std::size_t rank = 0; rank < job_.num_ranks(); ++rank) {
        const auto told = names_of(job_.program(rank, program.job_place));
        std::vector<std::string_view> other;
        std::ranges::set_symmetric_difference(told, expected, std::back_inserter(other));
        if (other.empty()) continue;
        Fault fault =
            fault_of(format("rank {}: {}: {} {}", rank, op::to_string(program.kind),
                            told.contains(other[0]) ? "it tells" : "it does not tell", other[0]));
        fault.rank = Rank(rank);
        equal_.faults.push_back(std::move(fault));
        break;
      }
    }
  }

  bool trains(const Scenario& scenario) const {
    return programs_[scenario.front().program].kind == op::ProgramKind::train;
  }

  /// As many sets of keys as the degree of a training step asks for.
  void find_keys() {
    equal_.degree = 1;
    const std::vector<Scenario> scenarios = scenarios_of(programs_, specification_, 0);
    const auto training =
        std::ranges::find_if(scenarios, [&](const Scenario& scenario) { return trains(scenario); });
    if (training != scenarios.end())
      equal_.degree = largest_degree(pair_, Keys(pair_, options_.seed), *training);
    constexpr double bits_of_field = 61;
    const double bits = std::max(bits_of_field - std::log2(equal_.degree), 1.0);
    const auto keys = static_cast<std::uint64_t>(std::ceil(wanted_bits / bits));
    equal_.keys = static_cast<int>(std::clamp(keys, fewest_keys, most_keys));
    equal_.bits = bits * equal_.keys;
  }

  void add_tasks(std::uint64_t key) {
    std::optional<Scenario> training;
    for (Scenario& scenario : scenarios_of(programs_, specification_, key)) {
      if (trains(scenario) && !training) training = scenario;
      tasks_.push_back({std::nullopt, key, std::move(scenario)});
    }
    if (!training) return;
    for (const PlantIn where : {PlantIn::forward, key % 2 == 0 ? PlantIn::loss : PlantIn::backward})
      tasks_.push_back({where, key, *training});
  }

  Outcome carry_out(const Task& task) const {
    constexpr std::uint64_t most_attempts = 5;
    for (std::uint64_t attempt = 0; attempt < most_attempts; ++attempt) try {
        const Keys keys(pair_, (options_.seed * most_keys + task.key) * most_attempts + attempt);
        return carry_out(keys, task);
      } catch (const op::ZeroDivisor&) {
        continue;
      }
    const ScenarioStep& first = task.scenario.front();
    return {{first.program,
             {fault_of(format("{}: it divides by zero, with {} sets of keys", first.text,
                              most_attempts))}},
            {}};
  }
  Outcome carry_out(const Keys& keys, const Task& task) const {
    if (!task.planted) return {check_scenario(pair_, keys, task.scenario), {}};
    Planted planted =
        check_planted(pair_, keys, task.scenario.front(), *task.planted, options_.seed + task.key);
    Outcome outcome{{task.scenario.front().program, std::move(planted.faults)}, {}};
    if (!planted.has_effect && outcome.found.faults.empty())
      outcome.notes.emplace_back("numbers that are not finite: none had an effect");
    return outcome;
  }

  /// The differences of a program are told once: most of them show with each set of keys, and with
  /// damaged state as with sound one.
  void take(const Outcome& outcome) {
    equal_.notes.insert(equal_.notes.end(), outcome.notes.begin(), outcome.notes.end());
    const FoundFaults& found = outcome.found;
    if (found.faults.empty() || !is_told_.insert(found.program).second) return;
    equal_.faults.insert(equal_.faults.end(), found.faults.begin(), found.faults.end());
  }

  void count_elements() {
    for (const Task& task : tasks_) {
      if (task.planted) continue;
      for (const ScenarioStep& step : task.scenario)
        equal_.elements += static_cast<std::int64_t>(
            state_.num_elements() + programs_[step.program].outputs.num_elements());
    }
  }

  const EqualOptions& options_;
  ResidueJob job_, specification_;
  TensorsInCommon state_;
  std::vector<CommonProgram> programs_;
  const Pair pair_{job_, specification_, state_, programs_};
  std::vector<Task> tasks_;
  std::set<std::size_t> is_told_;  // common programs with differences
  Equal equal_;
};

}  // namespace

Equal compare(const Job& job, const Job& specification, const EqualOptions& options) {
  Equal equal;
  if (specification.ranks.size() != 1)
    equal.faults.push_back(fault_of(
        format("a specification has one rank, and this one has {}", specification.ranks.size())));
  for (const Job* of : {&job, &specification}) check_runnable(*of, equal.faults);
  if (!equal.faults.empty()) return equal;
  const EqualCost cost = cost_of_equal(job, specification);
  if (cost.bytes > options.memory_bytes)
    throw UserError(ExitCode::does_not_fit,
                    format("to prove this job equal to its specification takes {} of memory, and "
                           "there are {}; prove one with a smaller model or fewer ranks",
                           format_bytes(cost.bytes), format_bytes(options.memory_bytes)));
  return Comparison(job, specification, options).run();
}

}  // namespace fourfold::verify
