
#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/print.h"
#include "program/text.h"

namespace fourfold::cli {

void program(const ProgramArguments& arguments) {
  config::Config config = load_config(arguments.config);
  resolve_model(config);
  const Job job = make_job(std::move(config), Graphs::of_run, arguments.ranks);
  if (arguments.of_job) return print_text(program::to_text(job.programs));
  const program::Bundle bundle = bundle_of(job, arguments.rank);
  if (arguments.program == "all") return print_text(program::to_text(bundle));
  const program::Program* found = bundle.find(arguments.program);
  if (found == nullptr) {
    std::string names;
    for (const auto& p : bundle.programs) names += p.name + ", ";
    throw UserError(ExitCode::bad_config, format("there is no program '{}'; choose one of {}all",
                                                 arguments.program, names));
  }
  print_text(program::to_text(*found));
}

}  // namespace fourfold::cli
