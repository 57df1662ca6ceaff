// Where a job first computes something that its specification never does.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "verify/residue_job.h"
#include "verify/residue_trace.h"

namespace fourfold::verify {

/// An instruction of a rank, and what is said of it.
struct FirstDifference {
  std::size_t rank = 0, place = 0, instruction = 0;
  std::string what;  // "makes what the specification never has"
};

/// The instruction to blame for a wrong element that `writer`, a node of a trace, has written.
///
/// The values of a job are those of its specification, whoever has them, but for terms of sums over
/// ranks or micro-batches and for what a cut form of a row has in between. So of the nodes that the
/// element was made from, in the order in which they ran, the first one is named
///  - that reads what nobody has written;
///  - that makes a value which the specification never has from values that it has, and adds up
///    nothing;
///  - or whose result another row, which is not linear, makes such a value of: that sum or maximum
///    is not complete, or has a wrong term.
/// If there is none, it is the writer itself. Limits: a wrong value that by chance or by nature is
/// one of the specification, such as another element of the same tensor, is not seen before
/// something is computed from it; a sum is not told from its terms; rows that the specification has
/// nowhere are passed by.
FirstDifference first_difference(const ResidueJob& job, const ResidueJob& specification,
                                 const ResidueTrace& trace, std::uint32_t writer);

}  // namespace fourfold::verify
