// The verifier is asked before the first step if the ranks of a job meet and come to their end. Not
// whether what they compute is right: see prove_equal.h.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/job.h"
#include "verify/verify.h"

namespace fourfold::job {

/// The error for a compiled job with faults: a bug of ours, by the first fault. `what` completes
/// "the ranks of this job would not".
UserError bug_in_job(const Job& job, std::string_view what,
                     const std::vector<verify::Fault>& faults);

/// Errors: UserError(internal) where the ranks of the job would not meet, or wait for each other
/// for ever, with the first fault. Cost: for each class linear in its instructions, and for each
/// rank in what it has of its own; a quarter of a second for 64 ranks in stages.
void prove_meetings(const Job& job);

/// True if a planned job can be compiled and proved within about half a second, where nobody wants
/// its programs: what `fourfold config check` then does.
bool is_proved_soon(const PlannedRun& planned);

}  // namespace fourfold::job
