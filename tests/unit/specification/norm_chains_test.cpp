// U-Nets compiled for a target with chains around norms and lists of averages, over residues: they
// compute what the specification says.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/norm_chains.h"
#include "unit/specification/specified_jobs.h"
#include "verify/equal.h"

namespace fourfold::specification {
namespace {

machine::Target fusing_target() {
  machine::Target target = kernels::cpu::reference_target();
  target.fusions = {kernels::norm_chains.begin(), kernels::norm_chains.end()};
  target.fusions.emplace_back("group_norm_sums");
  target.fusions.emplace_back("moving_average_list");
  target.repeated = {kernels::repeated_norm_rows.begin(), kernels::repeated_norm_rows.end()};
  target.repeated_for = {kernels::readers_of_repeated_norms.begin(),
                         kernels::readers_of_repeated_norms.end()};
  return target;
}

/// Small enough that a proof takes seconds.
test::SpecifiedJob small(test::SpecifiedJob job) {
  job.setup.unet->channels = 8;
  job.setup.unet->num_heads = 2;
  job.setup.unet->norm_groups = 4;
  job.setup.plan.global_batch_size = 4;
  job.setup.plan.micro_batch_size = 2;
  return job;
}

TEST(NormChainsOfJobs, compute_what_the_specification_says) {
  for (const test::SpecifiedJob& specified : test::specified_jobs()) {
    if (!specified.setup.unet) continue;
    for (const plan::Grid& grid : {plan::Grid{}, plan::Grid{.x = 2}}) {
      test::SpecifiedJob job = small(specified);
      job.setup.plan.grid = grid;
      const program::Job compiled = job.setup.job(fusing_target());
      const bool has_chains = std::ranges::any_of(
          compiled.classes[0].at(op::ProgramKind::train).instructions,
          [](const program::Instruction& instruction) {
            const auto* compute = std::get_if<program::Compute>(&instruction.what);
            const auto* chain = compute == nullptr ? nullptr : compute->op.get_if<op::Fused>();
            return chain != nullptr && chain->between() > 0;
          });
      EXPECT_TRUE(has_chains);
      const verify::Equal equal = verify::compare(compiled, job.specification());
      for (const verify::Fault& fault : equal.faults)
        ADD_FAILURE() << job.name << ": " << fault.rule << ": " << fault.message;
    }
  }
}

}  // namespace
}  // namespace fourfold::specification
