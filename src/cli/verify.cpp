#include "verify/verify.h"

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/prepare_to_look.h"
#include "config/rules.h"
#include "job/config_source.h"
#include "job/job.h"
#include "job/prove_equal.h"
#include "program/text.h"
#include "screen/print.h"
#include "verify/equal.h"
#include "verify/verify_job.h"

namespace fourfold::cli {
namespace {

using command_line::ProveEqual;

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

void print_left_out(const std::string& reason) {
  screen::print("equal     left out, as it takes %s; --equal compares all the same\n",
                reason.c_str());
}

std::string names_of(const std::vector<op::ProgramKind>& kinds) {
  std::string names;
  for (const op::ProgramKind kind : kinds)
    names += format("{}{}", names.empty() ? "" : ", ", op::to_string(kind));
  return names;
}

/// Compares a job with the specification that a configuration has, and prints what is proved.
void prove_equal(const program::Job& job, const config::Config& config,
                 const VerifyArguments& arguments, ExitCode code) {
  if (arguments.equal == ProveEqual::never) return;
  constexpr double most_s = 25;
  const bool is_asked = arguments.equal == ProveEqual::always;
  if (!is_asked)
    if (const auto reason = job::reason_to_leave_out(job)) return print_left_out(*reason);
  const program::Job specification = specify_to_look(config, arguments.ranks);
  if (!is_asked)
    if (const auto reason = job::reason_to_leave_out(job, specification, most_s))
      return print_left_out(*reason);
  const Stopwatch comparing;
  const verify::Equal equal =
      verify::compare(job, specification, {.memory_bytes = available_memory_bytes()});
  refuse(equal.faults, code);
  for (const std::string& note : equal.notes) screen::print("equal     %s\n", note.c_str());
  screen::print(
      "equal     to the serial program: %s; %s elements compared in %s; another function would "
      "pass with a probability of at most 2^-%.0f (degree %s, %d sets of keys)\n",
      names_of(equal.programs).c_str(), format_grouped(equal.elements).c_str(),
      format_duration(comparing.seconds()).c_str(), std::floor(equal.bits),
      format_count(equal.degree).c_str(), equal.keys);
}

program::Job job_of_text(const std::string& text, const std::string& path) {
  if (text.starts_with("program "))
    throw UserError(
        ExitCode::bad_config,
        format("{}:1: holds one program, expected all programs of a rank or of a job; print them "
               "with `fourfold program CONFIG --program all` or `--job`",
               path));
  if (text.starts_with("job ")) return program::parse_job(text, path);
  return {{program::parse_bundle(text, path)}, {}};
}

void verify_text(const VerifyArguments& arguments) {
  const std::string& path = arguments.program_text;
  const program::Job job = job_of_text(read_file(path, ExitCode::bad_config), path);
  const bool is_compared = !arguments.config.files.empty();
  if (job.ranks.empty()) {
    if (is_compared)
      throw UserError(ExitCode::bad_config,
                      format("{}:1: holds the programs of one rank, expected those of a job to "
                             "compare; print them with `fourfold program CONFIG --job`",
                             path));
    refuse(verify::verify(job.classes.front()), ExitCode::bad_config);
    return print_programs(job.classes.front());
  }
  refuse(verify::verify(job), ExitCode::bad_config);
  print_job(job);
  if (is_compared)
    prove_equal(job, job::load_config(arguments.config), arguments, ExitCode::bad_config);
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
  prove_equal(job, config, arguments, ExitCode::internal);
}

}  // namespace

void verify(const VerifyArguments& arguments) {
  if (arguments.program_text.empty())
    verify_config(arguments);
  else
    verify_text(arguments);
}

}  // namespace fourfold::cli
