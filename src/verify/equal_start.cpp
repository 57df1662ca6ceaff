#include "verify/equal_start.h"

#include <algorithm>
#include <set>
#include <string>

namespace fourfold::verify {
namespace {

using op::Residue;

/// The names of tensors that are such state of some row.
std::set<std::string> names_of_state(const ResidueJob& specification, op::State state) {
  std::set<std::string> names;
  const std::size_t places = specification.bundle(0).programs.size();
  for (std::size_t place = 0; place < places; ++place)
    for (const ResidueRow& row : specification.prepared(0, place).rows) {
      const op::Operands operands = op::operands(row.op);
      for (std::size_t i = 0; i < operands.size(); ++i)
        if (operands[i].state == state)
          names.insert(specification.program(0, place).buffer(row.operands[i].slice.buffer).name);
    }
  return names;
}

/// An element of a table (T, 2 + n) as op::KeepLosses keeps it; entries that are not there are 0.
Residue entry_of_losses(std::size_t index, std::size_t columns, Start start, Residue random) {
  const std::size_t time = index / columns, column = index % columns, most = columns - 2;
  const std::size_t count = start == Start::early ? (time * 7 + 3) % (most + 1) : most;
  if (column == 0) return count;
  if (column == 1) return count == 0 ? 0 : random;
  return column - 2 < count ? random : 0;
}

void set(const std::vector<HeldTensor>& list, const StateValues& values, Residue padding,
         const Program& program, ResidueMemory& memory) {
  Cells cells;
  for (const HeldTensor& held : list) {
    const DType type = program.buffer(held.buffer).dtype;
    const Slice slice = program.whole(held.buffer);
    cells.resize(ResidueMemory::count(slice, type), memory.is_traced());
    std::ranges::fill(cells.words, is_integer(type) ? 0 : padding);
    std::ranges::fill(cells.kinds, element_kind(type));
    for (const IndexRun& run : held.runs)
      std::copy_n(values[held.tensor].begin() + static_cast<std::ptrdiff_t>(run.index), run.count,
                  cells.words.begin() + static_cast<std::ptrdiff_t>(run.begin));
    memory.store(program, slice, type, cells);
  }
}

}  // namespace

bool is_table_of_losses(const Buffer& buffer) {
  return buffer.role == BufferRole::average && program::averaged_name(buffer.name).empty();
}

StateValues start_values(const TensorsInCommon& state, const ResidueJob& specification,
                         const op::Residues& residues, Start start, std::int64_t round) {
  const auto updates = names_of_state(specification, op::State::counter),
             found = names_of_state(specification, op::State::non_finite);
  const Program& program = specification.program(0, state.specification_place());
  StateValues values;
  for (const WholeTensor& tensor : state.tensors()) {
    std::vector<Residue>& elements = values.emplace_back(tensor.size());
    const bool is_table = is_table_of_losses(program.buffer(tensor.buffer));
    const bool is_late = start != Start::early;
    const Residue count = updates.contains(tensor.name) && is_late                 ? 5
                          : found.contains(tensor.name) && start == Start::counted ? 3
                                                                                   : 0;
    const RandomStream stream = random_stream("verify.state." + tensor.name);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const Residue random = residues.random(stream, static_cast<std::uint64_t>(round), 0, i);
      elements[i] = is_integer(tensor.type) ? count
                    : is_table ? entry_of_losses(i, static_cast<std::size_t>(tensor.shape.back()),
                                                 start, random)
                               : random;
    }
    // As many in each tensor that sums of their numbers tell which of them is missing.
    if (start == Start::damaged && tensor.role == BufferRole::moment)
      for (std::uint64_t i = 0; i <= stream.id % 16; ++i)
        elements[residues.random(stream, 0, 1, i) % elements.size()] = op::not_finite;
  }
  return values;
}

void set_state(const TensorsInCommon& state, const StateValues& values, Residue padding,
               ResidueRun& job, ResidueRun& specification) {
  set(state.held_by_specification(), values, padding,
      specification.job().program(0, state.specification_place()), specification.memory(0));
  for (std::size_t rank = 0; rank < job.job().num_ranks(); ++rank)
    set(state.held(rank), values, padding, job.job().program(rank, state.job_place()),
        job.memory(rank));
}

std::vector<Difference> changes(const TensorsInCommon& state, const StateValues& values,
                                const ResidueRun& job) {
  std::vector<Difference> differences;
  for (std::size_t rank = 0; rank < job.job().num_ranks(); ++rank)
    for (const HeldTensor& held : state.held(rank)) {
      const Program& program = job.job().program(rank, state.job_place());
      Difference difference{rank, held.tensor, held.buffer};
      note_differences(held, elements_of(job.memory(rank), program, held.buffer),
                       values[held.tensor], difference);
      if (difference.count > 0) differences.push_back(difference);
    }
  return differences;
}

}  // namespace fourfold::verify
