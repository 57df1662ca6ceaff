// Proves a program before it runs, from the program alone: it believes nothing that the compiler
// claims and shares no code with it. Not a type check of the text (text.h).
//
// Rules, as Fault::rule names them:
//   bounds              ids, shapes, slices and addresses are in range; buffers fit their region,
//   aligned to 64 bytes names               names are unique within their table tasks tasks are in
//   order, contiguous, and cover all instructions groups              members are the ranks on the
//   line of this rank along the axis; parts of collectives are equal persistent-overlap  persistent
//   buffers share no byte, within a program or across a bundle implementation      every Compute
//   names one operands            number, dtype and shape of operands are what the op's rules say
//   alias               an output shares bytes with another operand only where the op allows it, on
//   the same range read-only           the step block, parameters, moments and counters are written
//   only by those who may events              each event is recorded once, before it is waited for
//   deadlock            streams that run concurrently never wait in a circle
//   race                accesses to common bytes, one of them a write, are ordered by a path of
//   streams and events defined             bytes are read only as their buffer last wrote them;
//   outputs are defined at the end lost                a gradient or result is not overwritten
//   before anyone reads it state               sharding and partial sums, recomputed from op/'s
//   factor rules, match the claims update-once         each parameter and its moments are updated
//   once, from a completely reduced gradient feeds               each micro-batch is fed once per
//   kind, with this rank's samples bundle              programs of a bundle agree on ranks, meshes,
//   regions and persistent buffers
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"

namespace fourfold::program {

struct Fault {
  std::string rule;
  std::optional<std::size_t> instruction;  // none: the fault is of the program as a whole
  std::string message;  // "train: forward(0): instruction 17 (matmul h1, w -> p1): ..."
};

/// All faults; empty for a sound program. A fault that would make later rules meaningless ends the
/// search. Never throws for a program of any content. Cost: n log n in the accesses of the
/// instructions, per row for strided slices.
std::vector<Fault> verify(const Program& program);
/// Faults of all programs, then those between them.
std::vector<Fault> verify(const Bundle& bundle);

}  // namespace fourfold::program
