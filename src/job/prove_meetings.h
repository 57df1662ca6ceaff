// The verifier is asked before the first step if the ranks of a job meet and come to their end. Not
// whether what they compute is right: `fourfold verify` proves that, which takes longer.
#pragma once

#include "job/job.h"

namespace fourfold::job {

/// Errors: UserError(internal) where the ranks of the job would not meet, or wait for each other
/// for ever, with the first fault. Cost: for each class linear in its instructions, and for each
/// rank in what it has of its own; a quarter of a second for 64 ranks in stages.
void prove_meetings(const Job& job);

/// True if a planned job can be compiled and proved within about half a second, where nobody wants
/// its programs: what `fourfold config check` then does.
bool is_proved_soon(const PlannedRun& planned);

}  // namespace fourfold::job
