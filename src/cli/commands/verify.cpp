#include "verify/verify.h"

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/prepare_to_look.h"
#include "cli/shared_options.h"
#include "config/rules.h"
#include "job/config_source.h"
#include "job/job.h"
#include "job/prove_equal.h"
#include "program/text.h"
#include "screen/print.h"
#include "verify/describe.h"
#include "verify/equal.h"
#include "verify/verify_job.h"

namespace fourfold::cli {
namespace {

/// Faults end with exit code 70 for compiled programs (our bug) and 2 for a text.
struct VerifyArguments {
  job::ConfigSource config;
  std::optional<std::int64_t> ranks;
  std::string program_text;
  std::vector<std::string> of;
  bool always_equal = false, never_equal = false;  // neither: compared if that is soon done
};

void list_options(OptionList& options, VerifyArguments& given) {
  options.add("CONFIG", given.config.files, yaml_files);
  add_set_option(options, given.config);
  add_ranks_option(options, given.ranks);
  options.add("--text", given.program_text, "Verify this program text instead of a configuration");
  options.add("--of", given.of,
              "With --text: the configuration whose job this is; what it computes is compared with "
              "that of the text",
              {.excludes = "CONFIG", .needs = "--text"});
  options.add("--equal", given.always_equal,
              "Compare with the serial program however long it takes");
  options.add("--no-equal", given.never_equal,
              "Prove the rules alone, and do not compare with the serial program",
              {.excludes = "--equal,--of"});
}

std::string fault_of(const VerifyArguments& arguments) {
  if (arguments.config.files.empty() == arguments.program_text.empty())
    return "verify: give either CONFIG or --text FILE";
  if (arguments.always_equal && arguments.config.files.empty() && arguments.of.empty())
    return "--equal: give the configuration that a text is of by --of";
  return {};
}

void refuse(const std::vector<verify::Fault>& faults, ExitCode code) {
  if (!faults.empty()) throw UserError(code, verify::describe_faults(faults));
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
  if (arguments.never_equal) return;
  constexpr double most_s = 25;
  const bool is_asked = arguments.always_equal;
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
  const bool is_compared = !arguments.of.empty();
  if (job.ranks.empty()) {
    if (is_compared)
      throw UserError(ExitCode::bad_config,
                      format("{}:1: holds the programs of one rank, expected those of a job to "
                             "compare; print them with `fourfold program CONFIG --job`",
                             path));
    refuse(verify::verify(job.classes.front()), ExitCode::bad_config);
    return screen::print_text(verify::describe_proved(job.classes.front()));
  }
  refuse(verify::verify(job), ExitCode::bad_config);
  screen::print_text(verify::describe_proved(job));
  if (is_compared)
    prove_equal(job, job::load_config({arguments.of, arguments.config.sets}), arguments,
                ExitCode::bad_config);
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
  screen::print_text(verify::describe_proved(job));
  screen::print("time      %s to compile, %s to verify\n",
                format_duration(prepared.compiling_s).c_str(), format_duration(verify_s).c_str());
  prove_equal(job, config, arguments, ExitCode::internal);
}

void verify(const VerifyArguments& arguments) {
  if (arguments.program_text.empty())
    verify_config(arguments);
  else
    verify_text(arguments);
}

}  // namespace

void add_verify(Commands& commands) {
  commands.add({"verify", After{"plan"},
                "Prove the programs of all ranks free of races and deadlocks, and equal to the "
                "serial program",
                "verify configs/paper/gpt-80b.yaml"},
               list_options, verify, fault_of);
}

}  // namespace fourfold::cli
