#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "cli/command.h"
#include "measure/build_info.h"
#include "report/page.h"
#include "report/read_run.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> run_dirs;
  std::string output = "report.html";
};

void list_options(OptionList& options, ReportArguments& given) {
  options.add("RUN", given.run_dirs, "Run directories", {.is_required = true});
  options.add("-o,--output", given.output, "The page, one HTML file", {.shows_default = true});
}

/// A page is made anew as often as one likes; any other file is not replaced.
void check_output(const std::string& file) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return;  // writing says what is wrong with it
  std::string beginning(512, '\0');
  std::ifstream(file).read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  if (!report::is_page(beginning))
    throw UserError(ExitCode::output_in_use,
                    format("{} is there already, and is no page that report wrote; choose another "
                           "name, or remove it",
                           file));
}

void report(const ReportArguments& arguments) {
  check_output(arguments.output);
  const std::vector<report::Run> runs = report::read_runs(arguments.run_dirs);
  const measure::BuildInfo build = measure::build_info();
  write_file_atomic(arguments.output, report::make_page(runs, format("Fourfold {} ({})",
                                                                     build.version, build.commit)));
  screen::print("%s: %zu run%s\n", arguments.output.c_str(), runs.size(),
                runs.size() == 1 ? "" : "s");
}

}  // namespace

void add_report(Commands& commands) {
  commands.add({"report", After{"eval"}, "Write a page that shows a run, or compares several",
                "report runs/gpt-quickstart runs/slow -o compared.html"},
               list_options, report);
}

}  // namespace fourfold::cli
