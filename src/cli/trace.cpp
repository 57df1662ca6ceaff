#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/trace_file.h"
#include "rundir/run_files.h"
#include "screen/print.h"
#include "trace/chrome_format.h"
#include "trace/comparison.h"
#include "trace/summary.h"

namespace fourfold::cli {

std::string trace_file_of(const std::string& path) {
  if (file_exists(join_path(path, rundir::RunFiles::trace)))
    return join_path(path, rundir::RunFiles::trace);
  if (file_exists(join_path(path, rundir::RunFiles::config)))
    throw UserError(ExitCode::bad_data, format("the run in {} has no {}; train with --trace N",
                                               path, rundir::RunFiles::trace));
  return path;
}

void trace_summary(const TraceSummaryArguments& arguments) {
  const std::string path = trace_file_of(arguments.path);
  const trace::TimelineFile file = trace::parse_timeline_file(read_file(path), path);
  const trace::Timeline& timeline = file.timeline;
  const trace::Summary summary = trace::summarize(timeline, path);
  Json json = arguments.json ? trace::to_json(summary) : Json();
  std::string text = arguments.json ? "" : trace::to_text(summary);
  std::optional<trace::Comparison> comparison;
  if (!arguments.beside.empty())
    comparison =
        trace::compare(trace::parse_chrome_json(read_file(arguments.beside), arguments.beside),
                       arguments.beside, timeline, path);
  else if (file.predicted)
    comparison = trace::compare(*file.predicted, path + ", as predicted", timeline, path);
  if (comparison && arguments.json)
    json.set("beside", trace::to_json(*comparison));
  else if (comparison)
    text += "\n" + trace::to_text(*comparison);
  if (arguments.json) text = json.dump() + "\n";
  screen::print("%s", text.c_str());
}

}  // namespace fourfold::cli
