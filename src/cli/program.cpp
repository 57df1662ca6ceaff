
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
  const program::Bundle bundle =
      bundle_of(make_job(std::move(config), Graphs::of_run, arguments.ranks), arguments.rank);
  std::string text;
  if (arguments.program == "all") {
    text = program::to_text(bundle);
  } else {
    const program::Program* found = bundle.find(arguments.program);
    if (found == nullptr) {
      std::string names;
      for (const auto& p : bundle.programs) names += p.name + ", ";
      throw UserError(ExitCode::bad_config, format("there is no program '{}'; choose one of {}all",
                                                   arguments.program, names));
    }
    text = program::to_text(*found);
  }
  print_text(text);
}

}  // namespace fourfold::cli
