#include "verify/equal_tensors.h"

#include <algorithm>

#include "base/format.h"

namespace fourfold::verify {
namespace {

bool is_compared(const Buffer& buffer, TensorsInCommon::Which which) {
  if (which == TensorsInCommon::Which::outputs) return buffer.role == BufferRole::output;
  if (buffer.region != Region::persistent) return false;
  return is_learned(buffer.role) || buffer.role == BufferRole::rounded ||
         buffer.role == BufferRole::counter || buffer.role == BufferRole::cache;
}

std::string name_of_tensor(const Buffer& buffer) {
  return buffer.role == BufferRole::rounded ? std::string(program::rounded_name(buffer.name))
                                            : buffer.name;
}

}  // namespace

TensorsInCommon::TensorsInCommon(Which which, const ResidueJob& job, std::size_t job_place,
                                 const ResidueJob& specification, std::size_t specification_place)
    : which_(which), job_place_(job_place), specification_place_(specification_place) {
  const Program& whole = specification.program(0, specification_place);
  for (std::size_t i = 0; i < whole.buffers.size(); ++i) {
    const Buffer& buffer = whole.buffers[i];
    if (!is_compared(buffer, which) || buffer.role == BufferRole::rounded) continue;
    tensors_.push_back({buffer.name, BufferId(i), buffer.global, buffer.dtype, buffer.role});
  }
  std::ranges::sort(tensors_, {}, &WholeTensor::name);
  whole_ = held_by(specification, 0, specification_place);
  for (std::size_t rank = 0; rank < job.num_ranks(); ++rank)
    held_.push_back(held_by(job, rank, job_place));
  if (problems_.empty()) find_missing();
}

std::vector<HeldTensor> TensorsInCommon::held_by(const ResidueJob& job, std::size_t rank,
                                                 std::size_t place) {
  std::vector<HeldTensor> list;
  const Program& program = job.program(rank, place);
  Claims claims(program);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (!is_compared(buffer, which_)) continue;
    const std::string name = name_of_tensor(buffer);
    const auto whole = std::ranges::lower_bound(tensors_, name, {}, &WholeTensor::name);
    if (whole == tensors_.end() || whole->name != name) {
      problems_.push_back(format("it has no {} that rank {} has", name, rank));
    } else if (buffer.global != whole->shape ||
               is_integer(buffer.dtype) != is_integer(whole->type)) {
      problems_.push_back(
          format("{} is {} {} there, and {} {} on rank {}", name, fourfold::to_string(whole->type),
                 fourfold::to_string(whole->shape), fourfold::to_string(buffer.dtype),
                 fourfold::to_string(buffer.global), rank));
    } else {
      list.push_back({static_cast<std::size_t>(whole - tensors_.begin()), BufferId(i),
                      index_runs(claims, BufferId(i))});
    }
  }
  return list;
}

void TensorsInCommon::find_missing() {
  for (std::size_t number = 0; number < tensors_.size(); ++number) {
    const WholeTensor& tensor = tensors_[number];
    std::vector<bool> is_held(tensor.size());
    for (const std::vector<HeldTensor>& of_rank : held_)
      for (const HeldTensor& held : of_rank) {
        if (held.tensor != number) continue;
        for (const IndexRun& run : held.runs)
          for (std::size_t i = 0; i < run.count; ++i) is_held[run.index + i] = true;
      }
    const auto missing = std::ranges::find(is_held, false);
    if (missing == is_held.end()) continue;
    problems_.push_back(
        format("no rank has element {} of {}",
               index_text(tensor.shape, static_cast<std::size_t>(missing - is_held.begin())),
               tensor.name));
  }
}

std::size_t TensorsInCommon::num_elements() const {
  std::size_t count = 0;
  for (const std::vector<HeldTensor>& of_rank : held_)
    for (const HeldTensor& held : of_rank)
      for (const IndexRun& run : held.runs) count += run.count;
  return count;
}

std::vector<Difference> TensorsInCommon::differences(const ResidueRun& job,
                                                     const ResidueRun& specification) const {
  const Program& whole = specification.job().program(0, specification_place_);
  std::vector<std::vector<op::Residue>> expected;
  for (const WholeTensor& tensor : tensors_)
    expected.push_back(elements_of(specification.memory(0), whole, tensor.buffer));
  std::vector<Difference> differences;
  for (std::size_t rank = 0; rank < held_.size(); ++rank) {
    const Program& program = job.job().program(rank, job_place_);
    for (const HeldTensor& held : held_[rank]) {
      Difference difference{rank, held.tensor, held.buffer};
      note_differences(held, elements_of(job.memory(rank), program, held.buffer),
                       expected[held.tensor], difference);
      if (difference.count > 0) differences.push_back(difference);
    }
  }
  return differences;
}

std::vector<op::Residue> elements_of(const ResidueMemory& memory, const Program& program,
                                     BufferId id) {
  constexpr op::Residue nothing = op::minus_infinity - 1;  // neither a residue nor a tag
  Cells cells;
  memory.load(program, program.whole(id), program.buffer(id).dtype, cells);
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (cells.kinds[i] == no_element) cells.words[i] = nothing;
  return std::move(cells.words);
}

void note_differences(const HeldTensor& held, const std::vector<op::Residue>& elements,
                      const std::vector<op::Residue>& expected, Difference& difference) {
  for (const IndexRun& run : held.runs)
    for (std::size_t i = 0; i < run.count; ++i) {
      const std::size_t element = run.begin + i, index = run.index + i;
      if (elements[element] == expected[index]) continue;
      if (difference.count++ > 0) continue;
      difference.index = index;
      difference.element = element;
    }
}

std::string index_text(const Shape& shape, std::size_t index) {
  Shape places = shape;
  for (std::size_t dim = shape.rank(); dim-- > 0;) {
    const auto size = static_cast<std::size_t>(shape[dim]);
    places[dim] = static_cast<std::int64_t>(index % size);
    index /= size;
  }
  return fourfold::to_string(places);
}

}  // namespace fourfold::verify
