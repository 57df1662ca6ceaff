
#include "base/styled_text.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/plan_report.h"
#include "cli/summary.h"
#include "screen/print.h"
#include "screen/rows.h"

namespace fourfold::cli {

void plan(const PlanArguments& arguments) {
  config::Config config = load_config(arguments.config);
  resolve_model(config);
  const Job job = make_job(std::move(config), Graphs::of_run, arguments.ranks);
  for (const std::string& part :
       {without_styles(screen::to_text(summary_rows(job))), parameter_table(job), memory_table(job),
        traffic_table(job), program_table(job)})
    screen::print("%s\n", part.c_str());
}

}  // namespace fourfold::cli
