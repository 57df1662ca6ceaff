#include <algorithm>
#include <set>

#include "base/format.h"
#include "verify/equal_check.h"

namespace fourfold::verify {
namespace {

using op::Residue;

bool is_field(const Program& program, const Slice& slice, std::string_view field) {
  return program.buffer(slice.buffer).role == BufferRole::result_block &&
         slice.offset_bytes == static_cast<std::int64_t>(op::find_block_field(field)->offset_bytes);
}

/// The buffers that sums of the loss read.
std::set<BufferId> losses_of(const ResidueProgram& program) {
  std::set<BufferId> buffers;
  for (const ResidueRow& row : program.rows) {
    const bool sums_up = std::ranges::any_of(row.operands, [&](const ResidueRow::Operand& of) {
      return of.role != op::Role::read && is_field(*program.program, of.slice, "result.loss_sum");
    });
    for (const ResidueRow::Operand& of : row.operands)
      if (sums_up && of.role == op::Role::read && !is_integer(of.type))
        buffers.insert(of.slice.buffer);
  }
  return buffers;
}

/// Everything that such rows write and that may become not finite, on all ranks.
std::vector<Plant> plants_of(const Pair& pair, std::size_t place, PlantIn where) {
  std::vector<Plant> plants;
  for (std::size_t rank = 0; rank < pair.job.num_ranks(); ++rank) {
    const Program& program = pair.job.program(rank, place);
    const ResidueProgram& prepared = pair.job.prepared(rank, place);
    const std::set<BufferId> losses = losses_of(prepared);
    for (const Task& task : program.tasks) {
      const bool is_backward =
          task.kind == TaskKind::backward || task.kind == TaskKind::weight_backward;
      if (!(where == PlantIn::backward ? is_backward : task.kind == TaskKind::forward)) continue;
      for (std::size_t i = task.begin; i < task.end; ++i) {
        const auto rows = prepared.rows_of(i);
        for (std::size_t row = 0; row < rows.size(); ++row)
          for (std::size_t operand = 0; operand < rows[row].operands.size(); ++operand) {
            const ResidueRow::Operand& of = rows[row].operands[operand];
            const BufferRole role = program.buffer(of.slice.buffer).role;
            if (of.role == op::Role::write && !is_integer(of.type) &&
                (role == BufferRole::activation || role == BufferRole::gradient) &&
                (where != PlantIn::loss || losses.contains(of.slice.buffer)))
              plants.push_back({rank, i, row, operand, 0});
          }
      }
    }
  }
  return plants;
}

class PlantedCheck {
 public:
  PlantedCheck(const Pair& pair, const Keys& keys, const ScenarioStep& step)
      : pair_(pair), keys_(keys), step_(step), place_(pair.programs[step_.program].job_place) {}

  Planted run(PlantIn where, std::uint64_t seed) {
    const std::vector<Plant> plants = plants_of(pair_, place_, where);
    constexpr std::uint64_t most_tries = 8;
    Planted planted;
    const ResidueArithmetic arithmetic(keys_.residues);
    ResidueRun job(pair_.job, arithmetic), unused(pair_.specification, arithmetic);
    const auto values = start_values(pair_.state, pair_.specification, keys_.residues, Start::late,
                                     step_.step.step);
    for (std::uint64_t attempt = 0; attempt < most_tries && !plants.empty(); ++attempt) {
      const Random random(seed, random_stream("verify.planted"));
      Plant plant = plants[random.below(plants.size(), attempt, 0)];
      const ResidueRow::Operand& of = pair_.job.prepared(plant.rank, place_)
                                          .rows_of(plant.instruction)[plant.row]
                                          .operands[plant.operand];
      plant.element = random.below(static_cast<std::uint64_t>(of.shape.elements()), attempt, 1);
      set_state(pair_.state, values, keys_.padding, job, unused);
      const HostInputs inputs{step_.step, keys_.votes.of_ranks,
                              [&](const Input& input, std::int64_t sample, std::int64_t element) {
                                return keys_.samples.element(input, sample, element, true);
                              }};
      text_ = format("{}, with a number that is not finite in what {} of rank {} gives", step_.text,
                     place_text(plant), plant.rank);
      if (auto fault = job.run(place_, inputs, &plant))
        planted.faults.push_back(
            {std::string(equal_rule), std::nullopt, std::move(*fault), std::nullopt});
      else
        planted.has_effect = judge(job, values, planted.faults);
      if (planted.has_effect || !planted.faults.empty()) break;
    }
    return planted;
  }

 private:
  std::string place_text(const Plant& plant) const;

  std::optional<Residue> result_of(const ResidueRun& job, std::size_t rank,
                                   std::string_view name) const {
    const Program& program = pair_.job.program(rank, place_);
    for (const ResultField& field : result_fields_of(program))
      if (field.field.name == name) return result(job.memory(rank), program, field);
    return std::nullopt;
  }

  void fault(std::size_t rank, std::string_view message, std::vector<Fault>& faults) const {
    faults.push_back({std::string(equal_rule), std::nullopt,
                      format("rank {}: {}: {}", rank, text_, message), Rank(rank)});
  }

  /// False where the number has had no effect on any rank.
  bool judge(const ResidueRun& job, const std::vector<std::vector<Residue>>& values,
             std::vector<Fault>& faults) const {
    const std::size_t ranks = pair_.job.num_ranks();
    std::size_t applied = 0, last_applied = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (result_of(job, rank, "result.applied") != Residue{0}) {
        ++applied;
        last_applied = rank;
      }
    if (applied == ranks) {
      find_applied(job, faults);
      return false;
    }
    if (applied > 0) {
      fault(last_applied, "the update is applied here, but not on all ranks", faults);
      return true;
    }
    check_votes(job, faults);
    for (const Difference& difference : changes(pair_.state, values, job)) {
      const WholeTensor& tensor = pair_.state.tensors()[difference.tensor];
      fault(difference.rank,
            format("{} {} has changed though no update was applied",
                   pair_.job.program(difference.rank, pair_.state.job_place())
                       .buffer(difference.buffer)
                       .name,
                   index_text(tensor.shape, difference.index)),
            faults);
      break;
    }
    return true;
  }

  /// What was voted against must have been so on every rank, by as many.
  void check_votes(const ResidueRun& job, std::vector<Fault>& faults) const {
    std::optional<std::int64_t> against;
    for (std::size_t rank = 0; rank < pair_.job.num_ranks(); ++rank) {
      const auto votes = result_of(job, rank, "result.votes");
      if (!votes) continue;
      const std::int64_t here = op::Votes::of(static_cast<std::int64_t>(*votes)).against;
      if (here == 0 || (against && here != *against))
        return fault(rank,
                     format("{} ranks vote against the update here, and {} elsewhere", here,
                            against.value_or(0)),
                     faults);
      against = here;
    }
  }

  /// Whatever is applied on all ranks must have been without effect.
  void find_applied(const ResidueRun& job, std::vector<Fault>& faults) const {
    for (std::size_t rank = 0; rank < pair_.job.num_ranks(); ++rank) {
      for (const std::string_view field : {"result.loss_sum", "result.squared_norm"})
        if (result_of(job, rank, field) == op::not_finite)
          return fault(rank, format("the update is applied, and {} is not finite", field), faults);
      const Program& program = pair_.job.program(rank, pair_.state.job_place());
      for (const HeldTensor& held : pair_.state.held(rank)) {
        if (is_integer(program.buffer(held.buffer).dtype)) continue;
        const std::vector<Residue> elements = elements_of(job.memory(rank), program, held.buffer);
        if (std::ranges::find(elements, op::not_finite) != elements.end())
          return fault(rank,
                       format("the update is applied, and {} holds such numbers",
                              program.buffer(held.buffer).name),
                       faults);
      }
    }
  }

  const Pair& pair_;
  const Keys& keys_;
  const ScenarioStep& step_;
  std::size_t place_;
  std::string text_;
};

std::string PlantedCheck::place_text(const Plant& plant) const {
  const Program& program = pair_.job.program(plant.rank, place_);
  return format("instruction {} ({})", plant.instruction,
                name(program.instructions[plant.instruction]));
}

}  // namespace

Planted check_planted(const Pair& pair, const Keys& keys, const ScenarioStep& step, PlantIn where,
                      std::uint64_t seed) {
  return PlantedCheck(pair, keys, step).run(where, seed);
}

}  // namespace fourfold::verify
