#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/styled_text.h"
#include "cli/command.h"
#include "cli/shared_options.h"
#include "comm/launch.h"
#include "measure/health.h"
#include "measure/rank_facts.h"
#include "rundir/run_record.h"
#include "screen/print.h"
#include "screen/rows.h"
#include "screen/terminal.h"
#include "show/rank_report.h"

namespace fourfold::cli {
namespace {

struct DoctorArguments {
  std::string color = "auto";
  bool is_job = false;
  comm::LauncherFacts launcher;
  comm::Variable variable;
};

void list_options(OptionList& options, DoctorArguments& given) {
  given.variable = options.caller().variable;
  given.launcher = comm::launcher_facts(given.variable);
  add_color_option(options, given.color);
  options.add("--job", given.is_job,
              "Under mpirun or srun: one table of all ranks, their hosts, cores, GPUs and the ways "
              "between them");
}

using measure::HealthItem;
using measure::Verdict;

std::string line(const HealthItem& entry, int columns) {
  constexpr std::size_t indent = 4 + 2 + 12;
  const std::string verdict = entry.verdict == Verdict::ok     ? styled(Style::green, "ok  ")
                              : entry.verdict == Verdict::warn ? styled(Style::yellow, "warn")
                                                               : styled(Style::red, "bad ");
  std::string text =
      format("{}  {:<11} {}\n", verdict, entry.name, screen::wrapped(entry.text, indent, columns));
  if (!entry.advice.empty())
    text += format("{:{}}-> {}\n", "", indent, screen::wrapped(entry.advice, indent + 3, columns));
  return text;
}

/// Nothing that ranks look at takes as long.
constexpr double longest_look_s = 120;

/// Makes NCCL, which is not loaded yet, write down which ways it takes.
std::string ask_nccl_for_a_log() {
  const std::string path =
      std::filesystem::temp_directory_path() / format("fourfold-doctor-{}.nccl.log", getpid());
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT", 1);
  setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
  return path;
}

void show_ranks(const DoctorArguments& arguments, const std::vector<measure::RankFacts>& ranks) {
  const screen::Terminal terminal =
      screen::terminal_of(STDOUT_FILENO, screen::color_choice(arguments.color), arguments.variable);
  constexpr std::size_t indent = 4 + 2;
  const std::vector<std::string> warnings = show::rank_warnings(ranks);
  std::string text = show::rank_table(ranks) + "\n";
  for (const std::string& warning : warnings)
    text += format("{}  {}\n", styled(Style::yellow, "warn"),
                   screen::wrapped(warning, indent, terminal.columns()));
  text += warnings.empty() ? "all ranks can work together\n" : "";
  std::fputs((terminal.has_color ? text : without_styles(text)).c_str(), stdout);
}

void look_at_job(const DoctorArguments& arguments) {
  if (!arguments.launcher.launched_by_mpi())
    throw UserError(ExitCode::bad_config,
                    "--job looks at the processes of a launcher, and none started this one; start "
                    "it with mpirun or srun, or leave --job out");
  const std::string nccl_log = ask_nccl_for_a_log();
  comm::LaunchOptions launch;
  launch.watchdog_s = longest_look_s;
  launch.report = screen::report_error;
  comm::ProcessJob processes(arguments.launcher, launch);
  processes.run([&] {
    const std::vector<measure::RankFacts> ranks =
        measure::look_at_ranks(*processes.world(), nccl_log);
    if (processes.world()->rank().index() == 0) show_ranks(arguments, ranks);
  });
}

void doctor(const DoctorArguments& arguments) {
  if (arguments.is_job) return look_at_job(arguments);
  const HostFacts host = host_facts();
  const std::vector<HealthItem> items =
      measure::health(host, rundir::telling_variables(), arguments.variable);
  const screen::Terminal terminal =
      screen::terminal_of(STDOUT_FILENO, screen::color_choice(arguments.color), arguments.variable);
  const auto count = [&](Verdict verdict) {
    return std::count_if(items.begin(), items.end(),
                         [&](const HealthItem& entry) { return entry.verdict == verdict; });
  };
  std::string text = format("host  {}, {}\n", host.name, host.system);
  for (const HealthItem& entry : items) text += line(entry, terminal.columns());
  text += format("{} ok, {} to look at, {} bad\n", count(Verdict::ok), count(Verdict::warn),
                 count(Verdict::bad));
  std::fputs((terminal.has_color ? text : without_styles(text)).c_str(), stdout);
  if (count(Verdict::bad) > 0)
    throw UserError(ExitCode::environment,
                    "Fourfold cannot work here; what is marked bad above says why");
}

}  // namespace

void add_doctor(Commands& commands) {
  commands.add(
      {"doctor", After{"machines"}, "Say whether this build and this machine can work", "doctor"},
      list_options, doctor);
}

}  // namespace fourfold::cli
