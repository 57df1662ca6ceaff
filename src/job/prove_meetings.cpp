#include "job/prove_meetings.h"

#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "verify/verify_job.h"

namespace fourfold::job {

void prove_meetings(const Job& job) {
  const bool runs = job.plan.reshard.strategy != reshard::Strategy::signal;
  if (job.ranks() == 1 || !runs) return;
  const std::vector<verify::Fault> faults = verify::verify_meetings(job.programs);
  if (faults.empty()) return;
  throw UserError(
      ExitCode::internal,
      format("the ranks of this job would not come to the end of a step, which is a bug in "
             "Fourfold: {}: {}; another {} may go; please report it with the configuration{}",
             faults[0].rule, faults[0].message,
             job.plan.meshes.size() > 1 ? "schedule or number of stages (parallel.pipeline)"
                                        : "grid (parallel.tensor, parallel.data)",
             faults.size() > 1 ? format(", `fourfold verify` lists all {} faults", faults.size())
                               : ""));
}

}  // namespace fourfold::job
