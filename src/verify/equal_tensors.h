// Which tensors two jobs have in common, and where their ranks hold which elements: what is set and
// compared when one of them is proved to be equal to the other, its specification.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "verify/residue_job.h"
#include "verify/residue_run.h"
#include "verify/whole_index.h"

namespace fourfold::verify {

/// A tensor of the specification, which holds it whole.
struct WholeTensor {
  std::string name;
  BufferId buffer;
  Shape shape;
  DType type;
  BufferRole role;

  std::size_t size() const { return static_cast<std::size_t>(shape.elements()); }
};
/// What a rank has of it. Its buffer has the name of the tensor, or is its rounded copy.
struct HeldTensor {
  std::size_t tensor = 0;  // number of the whole one
  BufferId buffer;
  std::vector<IndexRun> runs;
};

/// The first element in which a rank does not hold what the specification has, and how many there
/// are.
struct Difference {
  std::size_t rank = 0, tensor = 0;
  BufferId buffer;
  std::size_t index = 0;    // in the whole tensor
  std::size_t element = 0;  // in the buffer
  std::size_t count = 0;
};

class TensorsInCommon {
 public:
  enum class Which : std::uint8_t { state, outputs };
  /// State, or the outputs of the programs at these places. A specification has one rank.
  TensorsInCommon(Which which, const ResidueJob& job, std::size_t job_place,
                  const ResidueJob& specification, std::size_t specification_place);

  /// Names and shapes in which the two jobs differ, and elements that no rank holds.
  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<WholeTensor>& tensors() const { return tensors_; }
  /// What a rank of the job has.
  const std::vector<HeldTensor>& held(std::size_t rank) const { return held_[rank]; }
  /// All that the specification has, rounded copies too.
  const std::vector<HeldTensor>& held_by_specification() const { return whole_; }
  std::size_t num_elements() const;
  std::size_t job_place() const { return job_place_; }
  std::size_t specification_place() const { return specification_place_; }

  /// At most one difference of each buffer.
  std::vector<Difference> differences(const ResidueRun& job, const ResidueRun& specification) const;

 private:
  std::vector<HeldTensor> held_by(const ResidueJob& job, std::size_t rank, std::size_t place);
  void find_missing();

  Which which_;
  std::size_t job_place_, specification_place_;
  std::vector<WholeTensor> tensors_;
  std::vector<std::vector<HeldTensor>> held_;
  std::vector<HeldTensor> whole_;
  std::vector<std::string> problems_;
};

/// The elements of a buffer in the order of memory; where nothing has been written, a word that is
/// no element.
std::vector<op::Residue> elements_of(const ResidueMemory& memory, const Program& program,
                                     BufferId id);
/// Counts the elements of a held tensor that are not what `expected` has of the whole one, and
/// notes the first of them.
void note_differences(const HeldTensor& held, const std::vector<op::Residue>& elements,
                      const std::vector<op::Residue>& expected, Difference& difference);

/// "[2, 5]": an element's place in a tensor.
std::string index_text(const Shape& shape, std::size_t index);

}  // namespace fourfold::verify
