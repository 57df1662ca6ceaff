
#include "base/styled_text.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/plan_report.h"
#include "cli/print.h"
#include "cli/summary.h"

namespace fourfold::cli {

void plan(const PlanArguments& arguments) {
  config::Config config = load_config(arguments.config);
  resolve_model(config);
  const Job job = make_job(std::move(config), Graphs::of_run, arguments.ranks);
  for (const std::string& part : {without_styles(to_text(summary_rows(job))), parameter_table(job),
                                  memory_table(job), traffic_table(job), program_table(job)})
    print("%s\n", part.c_str());
}

}  // namespace fourfold::cli
