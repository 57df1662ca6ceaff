#include "plan/plan.h"

#include <cstdio>

#include "base/format.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/summary.h"
#include "compile/place_buffers.h"

namespace fourfold::cli {

void plan(const PlanArguments& arguments) {
  config::Config config = load_config(arguments.config);
  resolve_vocabulary(config);
  const Job job = make_job(std::move(config));
  std::fputs(summary(job).c_str(), stdout);
  std::puts("\nprogram     instructions   transient   least possible       flops");
  for (const program::Program& p : job.bundle.programs)
    std::printf("%-11s %12zu %11s %16s %11s\n", p.name.c_str(), p.instructions.size(),
                format_bytes(p.transient_bytes).c_str(),
                format_bytes(compile::live_bytes_bound(p)).c_str(),
                format_count(program::total_flops(p)).c_str());
}

}  // namespace fourfold::cli
