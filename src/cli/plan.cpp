#include <utility>

#include "base/styled_text.h"
#include "cli/commands.h"
#include "cli/config_source.h"
#include "job/job.h"
#include "job/plan_report.h"
#include "job/summary.h"
#include "screen/print.h"
#include "screen/rows.h"

namespace fourfold::cli {

void plan(const PlanArguments& arguments) {
  config::Config config = load_config(arguments.config);
  job::resolve_model(config);
  job::Job job = job::make_job(std::move(config), job::Graphs::of_run, arguments.ranks);
  for (const std::string& section :
       {without_styles(screen::to_text(job::summary_rows(job))), job::parameter_table(job),
        job::memory_table(job), job::traffic_table(job), job::program_table(job)})
    screen::print("%s\n", section.c_str());
  const std::string switches = job::switch_table(std::move(job));
  if (!switches.empty()) screen::print("%s\n", switches.c_str());
}

}  // namespace fourfold::cli
