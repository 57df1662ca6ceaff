#include "base/file.h"
#include "base/format.h"
#include "cli/commands.h"
#include "job/build_info.h"
#include "report/page.h"
#include "report/read_run.h"
#include "screen/print.h"

namespace fourfold::cli {

void report(const ReportArguments& arguments) {
  const std::vector<report::Run> runs = report::read_runs(arguments.run_dirs);
  const job::BuildInfo build = job::build_info();
  write_file_atomic(arguments.output, report::make_page(runs, format("Fourfold {} ({})",
                                                                     build.version, build.commit)));
  screen::print("%s: %zu run%s\n", arguments.output.c_str(), runs.size(),
                runs.size() == 1 ? "" : "s");
}

}  // namespace fourfold::cli
