// Runs the programs of all ranks of a job over residues: what each rank would compute, if sums had
// no rounding. In one thread, in any order that streams, events, collectives and messages allow:
// the rules of verify.h prove that the order does not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "op/blocks.h"
#include "verify/element_arithmetic.h"
#include "verify/residue_job.h"
#include "verify/residue_memory.h"
#include "verify/residue_trace.h"

namespace fourfold::verify {

/// What the hosts of the ranks give a program.
struct HostInputs {
  op::StepBlock step;               // but for its vote
  std::vector<std::int64_t> votes;  // of each rank's host
  /// An element of a sample of an input; samples count over all steps.
  std::function<op::Residue(const Input& input, std::int64_t sample, std::int64_t element)> feed;
};

/// An element that becomes a number which is not finite as soon as it has been computed.
struct Plant {
  std::size_t rank = 0, instruction = 0, row = 0, operand = 0, element = 0;
};

/// The ranks of a job with their memory, which programs run one after another change.
class ResidueRun {
 public:
  /// With a trace, all that is computed is noted there.
  ResidueRun(const ResidueJob& job, const ElementArithmetic& arithmetic,
             ResidueTrace* trace = nullptr);

  const ResidueJob& job() const { return job_; }
  ResidueMemory& memory(std::size_t rank) { return memories_[rank]; }
  const ResidueMemory& memory(std::size_t rank) const { return memories_[rank]; }

  /// Runs the program at a place of each bundle on all ranks. What is wrong, where they do not come
  /// to its end or those who meet do not fit: one line. Throws op::ZeroDivisor.
  std::optional<std::string> run(std::size_t place, const HostInputs& inputs,
                                 const Plant* plant = nullptr);

 private:
  const ResidueJob& job_;
  const ElementArithmetic& arithmetic_;
  ResidueTrace* trace_;
  std::vector<ResidueMemory> memories_;
};

}  // namespace fourfold::verify
