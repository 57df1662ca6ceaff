#include "verify/equal_check.h"

#include <algorithm>

#include "base/format.h"
#include "verify/first_difference.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

using op::Residue;

/// A word of the job that the specification does not have there.
struct Wrong {
  std::size_t rank, place;
  Slice slice;  // of the element
  std::string text;
};

/// The bytes of an element of a buffer.
Slice element_of(const Program& program, BufferId id, std::size_t element) {
  const std::int64_t size = size_bytes(program.buffer(id).dtype);
  return {id, static_cast<std::int64_t>(element) * size, 1, size, 0};
}

class Checker {
 public:
  Checker(const Pair& pair, const Keys& keys, const Scenario& scenario)
      : pair_(pair), keys_(keys), scenario_(scenario) {}

  FoundFaults run() {
    const ResidueArithmetic arithmetic(keys_.residues);
    ResidueRun job(pair_.job, arithmetic), specification(pair_.specification, arithmetic);
    for (std::size_t i = 0; i < scenario_.size(); ++i) {
      const ScenarioStep& step = scenario_[i];
      start(step, job, specification);
      const auto told = [&](std::string text) {
        Fault fault{std::string(equal_rule), std::nullopt, std::move(text), std::nullopt};
        return FoundFaults{step.program, {std::move(fault)}};
      };
      if (auto fault = run_step(specification, step, false))
        return told(format("the specification: {}", *fault));
      if (auto fault = run_step(job, step, true)) return told(std::move(*fault));
      const std::vector<Wrong> wrong = wrong_after(step, job, specification);
      if (!wrong.empty()) return {step.program, faults(wrong, i)};
    }
    return {};
  }

  /// The largest degree of what the first step leaves.
  double largest_degree() {
    const DegreeArithmetic arithmetic;
    ResidueRun job(pair_.job, arithmetic), specification(pair_.specification, arithmetic);
    StateValues values;
    for (const WholeTensor& tensor : pair_.state.tensors())
      values.emplace_back(tensor.size(), op::word_of({1, 0}));
    set_state(pair_.state, values, op::word_of({1, 0}), job, specification);
    double largest = 1;
    for (const bool is_job : {false, true}) {
      ResidueRun& run = is_job ? job : specification;
      run_step(run, scenario_.front(), is_job, [](auto&&...) { return Residue{0}; });
      largest = std::max(largest, largest_in(run, scenario_.front(), is_job));
    }
    return largest;
  }

 private:
  const CommonProgram& program_of(const ScenarioStep& step) const {
    return pair_.programs[step.program];
  }
  std::size_t place_of(const ScenarioStep& step, bool is_job) const {
    return is_job ? program_of(step).job_place : program_of(step).specification_place;
  }

  void start(const ScenarioStep& step, ResidueRun& job, ResidueRun& specification) const {
    if (step.start)
      set_state(pair_.state,
                start_values(pair_.state, pair_.specification, keys_.residues, *step.start,
                             step.step.step),
                keys_.padding, job, specification);
  }

  std::optional<std::string> run_step(ResidueRun& run, const ScenarioStep& step,
                                      bool is_job) const {
    return run_step(run, step, is_job,
                    [&](const Input& input, std::int64_t sample, std::int64_t element) {
                      return keys_.samples.element(input, sample, element, step.has_labels);
                    });
  }
  template <class Feed>
  std::optional<std::string> run_step(ResidueRun& run, const ScenarioStep& step, bool is_job,
                                      const Feed& feed) const {
    const std::vector<std::int64_t> sum = {keys_.votes.sum};
    return run.run(place_of(step, is_job), {step.step, is_job ? keys_.votes.of_ranks : sum, feed});
  }

  // --- what differs

  std::vector<Wrong> wrong_after(const ScenarioStep& step, const ResidueRun& job,
                                 const ResidueRun& specification) const {
    std::vector<Wrong> wrong;
    add_wrong(pair_.state, program_of(step).job_place, job, specification, wrong);
    add_wrong(program_of(step).outputs, program_of(step).job_place, job, specification, wrong);
    const Program& whole = pair_.specification.program(0, program_of(step).specification_place);
    const std::vector<ResultField> expected = result_fields_of(whole);
    for (std::size_t rank = 0; rank < pair_.job.num_ranks(); ++rank) {
      const Program& program = pair_.job.program(rank, program_of(step).job_place);
      for (const ResultField& field : result_fields_of(program)) {
        const auto place = std::ranges::find(expected, field.field.name,
                                             [](const ResultField& of) { return of.field.name; });
        if (place == expected.end()) continue;
        auto right = result(specification.memory(0), whole, *place);
        if (right && field.field.name == "result.votes") right = votes_of_all(*right);
        if (result(job.memory(rank), program, field) == right) continue;
        wrong.push_back({rank, program_of(step).job_place, field.slice,
                         format("{} is not that of the specification", field.field.name)});
      }
    }
    return wrong;
  }

  /// What the ranks of the job must have voted where the one of the specification has voted so:
  /// each of them votes against what it votes against.
  Residue votes_of_all(Residue votes) const {
    op::Votes all = op::Votes::of(static_cast<std::int64_t>(votes));
    all.against *= static_cast<std::int64_t>(pair_.job.num_ranks());
    return static_cast<Residue>(all.packed());
  }

  void add_wrong(const TensorsInCommon& tensors, std::size_t place, const ResidueRun& job,
                 const ResidueRun& specification, std::vector<Wrong>& wrong) const {
    for (const Difference& difference : tensors.differences(job, specification)) {
      const WholeTensor& tensor = tensors.tensors()[difference.tensor];
      const Program& of_tensors = pair_.job.program(difference.rank, tensors.job_place());
      const std::string& name = of_tensors.buffer(difference.buffer).name;
      const Program& program = pair_.job.program(difference.rank, place);
      const auto id = program.find_buffer(name);
      if (!id) continue;
      wrong.push_back({difference.rank, place, element_of(program, *id, difference.element),
                       format("{} {} is not what the specification has{}", name,
                              index_text(tensor.shape, difference.index),
                              difference.count == 1 ? ""
                                                    : format(", nor are {} further elements there",
                                                             difference.count - 1))});
    }
  }

  // --- what is told of it

  std::vector<Fault> faults(const std::vector<Wrong>& wrong, std::size_t step) const {
    constexpr std::size_t most_told = 8;
    const auto first = blame(wrong.front(), step);
    std::vector<Fault> list;
    for (const Wrong& one : wrong) {
      if (list.size() == most_told) {
        list.push_back({std::string(equal_rule), std::nullopt,
                        format("{}: {} further tensors or results of ranks differ",
                               scenario_[step].text, wrong.size() - most_told),
                        std::nullopt});
        break;
      }
      Fault fault{std::string(equal_rule), std::nullopt,
                  format("rank {}: {}: {}", one.rank, scenario_[step].text, one.text),
                  Rank(one.rank)};
      if (list.empty() && first) {
        fault.instruction = first->instruction;
        fault.message +=
            format("; the first to differ: rank {}: {} {}", first->rank,
                   place_text(pair_.job.program(first->rank, first->place), first->instruction),
                   first->what);
      }
      list.push_back(std::move(fault));
    }
    return list;
  }

  /// Runs a step once more, and those that its state is from, to see who made what.
  std::optional<FirstDifference> blame(const Wrong& wrong, std::size_t last) const {
    std::size_t first = last;
    while (first > 0 && !scenario_[first].start) --first;
    const ResidueArithmetic arithmetic(keys_.residues);
    ResidueTrace trace;
    ResidueRun specification(pair_.specification, arithmetic, &trace);
    ResidueRun job(pair_.job, arithmetic, &trace);
    start(scenario_[first], job, specification);
    for (const WholeTensor& tensor : pair_.state.tensors()) {
      const Program& program = pair_.specification.program(0, pair_.state.specification_place());
      Cells cells;
      specification.memory(0).load(program, program.whole(tensor.buffer), tensor.type, cells);
      trace.collect(cells);
    }
    for (std::size_t i = first; i <= last; ++i) run_step(specification, scenario_[i], false);
    trace.follow();
    for (std::size_t i = first; i <= last; ++i) run_step(job, scenario_[i], true);
    const Program& program = pair_.job.program(wrong.rank, wrong.place);
    Cells cells;
    job.memory(wrong.rank).load(program, wrong.slice, type_of(program, wrong.slice), cells);
    if (cells.kinds[0] == no_element || cells.writers[0] == ResidueTrace::no_node)
      return std::nullopt;
    return first_difference(pair_.job, pair_.specification, trace, cells.writers[0]);
  }

  // --- degrees

  double largest_in(const ResidueRun& run, const ScenarioStep& step, bool is_job) const {
    double largest = 0;
    const auto note = [&](std::size_t rank, const Program& program, const Slice& slice) {
      const DType type = type_of(program, slice);
      if (is_integer(type)) return;
      Cells cells;
      run.memory(rank).load(program, slice, type, cells);
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (cells.kinds[i] == no_element) continue;
        const op::Degree of = op::degree_of(cells.words[i]);
        largest = std::max(largest, of.degree + of.before);
      }
    };
    for (std::size_t rank = 0; rank < run.job().num_ranks(); ++rank) {
      const Program& program = run.job().program(rank, place_of(step, is_job));
      for (std::size_t i = 0; i < program.buffers.size(); ++i)
        if (is_learned(program.buffers[i].role)) note(rank, program, program.whole(BufferId(i)));
      for (const ResultField& field : result_fields_of(program)) note(rank, program, field.slice);
    }
    return largest;
  }

  const Pair& pair_;
  const Keys& keys_;
  const Scenario& scenario_;
};

}  // namespace

std::vector<ResultField> result_fields_of(const Program& program) {
  std::vector<ResultField> fields;
  for (const Instruction& instruction : program.instructions)
    for (const Access& access : accesses(instruction)) {
      if (access.role == op::Role::read ||
          program.buffer(access.slice.buffer).role != BufferRole::result_block)
        continue;
      for (const op::BlockField& field : op::result_fields)
        if (static_cast<std::int64_t>(field.offset_bytes) == access.slice.offset_bytes &&
            std::ranges::find(fields, field.name,
                              [](const ResultField& of) { return of.field.name; }) == fields.end())
          fields.push_back({field, access.slice});
    }
  return fields;
}

std::optional<Residue> result(const ResidueMemory& memory, const Program& program,
                              const ResultField& of) {
  Cells cells;
  memory.load(program, of.slice, of.field.dtype, cells);
  if (cells.kinds[0] != element_kind(of.field.dtype)) return std::nullopt;
  return cells.words[0];
}

Keys::Keys(const Pair& pair, std::uint64_t key)
    : residues(key),
      padding(residues.random(random_stream("verify.padding"), 0, 0, 0)),
      samples(pair.specification, key),
      votes(votes_of_hosts(pair.job.num_ranks(), key)) {}

FoundFaults check_scenario(const Pair& pair, const Keys& keys, const Scenario& scenario) {
  return Checker(pair, keys, scenario).run();
}

double largest_degree(const Pair& pair, const Keys& keys, const Scenario& scenario) {
  return Checker(pair, keys, scenario).largest_degree();
}

}  // namespace fourfold::verify
