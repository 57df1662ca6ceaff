#include "verify/verify.h"

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/prepare_to_look.h"
#include "config/rules.h"
#include "job/config_source.h"
#include "job/job.h"
#include "program/text.h"
#include "screen/print.h"
#include "verify/verify_job.h"

namespace fourfold::cli {
namespace {

std::string fault_list(const std::vector<verify::Fault>& faults) {
  constexpr std::size_t shown = 20;
  std::string text = format("{} fault{} found", faults.size(), faults.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < faults.size() && i < shown; ++i)
    text += format("\n  {}: {}", faults[i].rule, faults[i].message);
  if (faults.size() > shown) text += format("\n  ... and {} more", faults.size() - shown);
  return text;
}

void print_programs(const program::Bundle& bundle) {
  for (const program::Program& p : bundle.programs)
    screen::print("%-9s %6zu instructions, %4zu buffers, %4zu events: no faults\n",
                  std::string(op::to_string(p.kind)).c_str(), p.instructions.size(),
                  p.buffers.size(), p.num_events);
  screen::print("memory    %s persistent + %s transient\n",
                format_bytes(bundle.persistent_bytes).c_str(),
                format_bytes(bundle.transient_bytes).c_str());
}

/// How many instructions all ranks run together.
std::int64_t count_instructions(const program::Job& job) {
  std::vector<std::int64_t> of_class;
  for (const program::Bundle& bundle : job.classes) {
    std::int64_t& count = of_class.emplace_back(0);
    for (const program::Program& p : bundle.programs)
      count += static_cast<std::int64_t>(p.instructions.size());
  }
  std::int64_t count = 0;
  for (const program::Binding& binding : job.ranks) count += of_class[binding.of_class];
  return count;
}

void print_job(const program::Job& job) {
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    if (job.classes.size() > 1) screen::print("class %zu\n", i);
    print_programs(job.classes[i]);
  }
  screen::print("ranks     %s, %s instructions in all\n",
                format_grouped(static_cast<std::int64_t>(job.ranks.size())).c_str(),
                format_grouped(count_instructions(job)).c_str());
}

void refuse(const std::vector<verify::Fault>& faults, ExitCode code) {
  if (!faults.empty()) throw UserError(code, fault_list(faults));
}

void verify_text(const std::string& path) {
  const std::string text = read_file(path, ExitCode::bad_config);
  if (text.starts_with("program "))
    throw UserError(
        ExitCode::bad_config,
        format("{}:1: holds one program, expected all programs of a rank or of a job; print them "
               "with `fourfold program CONFIG --program all` or `--job`",
               path));
  if (text.starts_with("job ")) {
    const program::Job job = program::parse_job(text, path);
    refuse(verify::verify(job), ExitCode::bad_config);
    print_job(job);
    return;
  }
  const program::Bundle bundle = program::parse_bundle(text, path);
  refuse(verify::verify(bundle), ExitCode::bad_config);
  print_programs(bundle);
}

void verify_config(const VerifyArguments& arguments) {
  const config::Config config = job::load_config(arguments.config);
  config::refuse_signals(config);
  const job::Job prepared = prepare_to_look(config, arguments.ranks);
  const program::Job& job = prepared.programs;
  const Stopwatch verifying;
  const std::vector<verify::Fault> faults = verify::verify(job);
  const double verify_s = verifying.seconds();
  refuse(faults, ExitCode::internal);
  print_job(job);
  screen::print("time      %s to compile, %s to verify\n",
                format_duration(prepared.compiling_s).c_str(), format_duration(verify_s).c_str());
}

}  // namespace

void verify(const VerifyArguments& arguments) {
  if (arguments.program_text.empty())
    verify_config(arguments);
  else
    verify_text(arguments.program_text);
}

}  // namespace fourfold::cli
