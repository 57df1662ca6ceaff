#include "job/prove_meetings.h"

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "verify/verify_job.h"

namespace fourfold::job {

UserError bug_in_job(const Job& job, std::string_view what,
                     const std::vector<verify::Fault>& faults) {
  return {
      ExitCode::internal,
      format("the ranks of this job would not {}, which is a bug in Fourfold: {}: {}; another "
             "{} may go; please report it with the configuration{}",
             what, faults[0].rule, faults[0].message,
             job.plan.meshes.size() > 1 ? "schedule or number of stages (parallel.pipeline)"
                                        : "grid (parallel.tensor, parallel.data)",
             faults.size() > 1 ? format(", `fourfold verify` lists all {} faults", faults.size())
                               : "")};
}

void prove_meetings(const Job& job) {
  const bool runs = job.plan.reshard.strategy != reshard::Strategy::signal;
  if (job.ranks() == 1 || !runs) return;
  const std::vector<verify::Fault> faults = verify::verify_meetings(job.programs);
  if (!faults.empty()) throw bug_in_job(job, "come to the end of a step", faults);
}

bool is_proved_soon(const PlannedRun& planned) {
  constexpr std::int64_t most_ranks = 64;
  // Compiling 160,000 takes 2.6 s on one core: GPT of 2.6 billion parameters, 128 micro-batches.
  constexpr std::int64_t most_nodes = 30'000;
  std::int64_t nodes = 0;
  for (const graph::Graph& graph : planned.graphs.graphs)
    if (graph.kind == op::ProgramKind::train)
      nodes += static_cast<std::int64_t>(graph.nodes.size());
  return planned.ranks() <= most_ranks && nodes <= most_nodes / planned.plan.batching.accumulation;
}

}  // namespace fourfold::job
