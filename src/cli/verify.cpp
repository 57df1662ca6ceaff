#include "program/verify.h"

#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "program/text.h"

namespace fourfold::cli {
namespace {

std::string fault_list(const std::vector<program::Fault>& faults) {
  constexpr std::size_t shown = 20;
  std::string text = format("{} fault{} found", faults.size(), faults.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < faults.size() && i < shown; ++i)
    text += format("\n  {}: {}", faults[i].rule, faults[i].message);
  if (faults.size() > shown) text += format("\n  ... and {} more", faults.size() - shown);
  return text;
}

program::Bundle bundle_of(const VerifyArguments& arguments) {
  if (!arguments.program_text.empty()) {
    const std::string text = read_file(arguments.program_text, ExitCode::bad_config);
    return program::parse_bundle(text, arguments.program_text);
  }
  config::Config config = load_config(arguments.config);
  resolve_vocabulary(config);
  return make_job(std::move(config)).bundle;
}

}  // namespace

void verify(const VerifyArguments& arguments) {
  const program::Bundle bundle = bundle_of(arguments);
  const std::vector<program::Fault> faults = program::verify(bundle);
  if (!faults.empty())
    throw UserError(arguments.program_text.empty() ? ExitCode::internal : ExitCode::bad_config,
                    fault_list(faults));
  for (const program::Program& p : bundle.programs)
    std::printf("%-9s %6zu instructions, %4zu buffers, %2zu events: no faults\n", p.name.c_str(),
                p.instructions.size(), p.buffers.size(), p.num_events);
  std::printf("memory    %s persistent + %s transient\n",
              format_bytes(bundle.persistent_bytes).c_str(),
              format_bytes(bundle.transient_bytes).c_str());
}

}  // namespace fourfold::cli
