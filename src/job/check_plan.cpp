#include "job/check_plan.h"

#include <utility>
#include <vector>

#include "base/format.h"
#include "config/changes.h"
#include "data/token_sets.h"
#include "job/job.h"
#include "job/prove_meetings.h"
#include "job/settle.h"

namespace fourfold::job {

void check_plan(const config::Config& config, const std::function<void(const std::string&)>& note) {
  const std::vector<data::MissingFile> missing = data::missing_files(config.data_spec());
  for (const auto& [key, path] : missing)
    note(format("{} = {} is not there, seen from the current directory", key, path));
  if (needs_data(config) && !missing.empty()) return;
  config::Settled settled = settle(config::with_least_grid(config), {});
  const PlannedRun planned = plan_run(settled);
  if (planned.plan.meshes.size() == 1) return;
  if (!is_proved_soon(planned)) {
    note(format(
        "parallel.pipeline: programs of {} ranks take a while, so it is not proved here that "
        "all come to the end of a step; `fourfold plan` proves it",
        planned.ranks()));
    return;
  }
  prove_meetings(prepare(std::move(settled),
                         {.purpose = Purpose::look, .passes = {.only = op::ProgramKind::train}}));
}

}  // namespace fourfold::job
