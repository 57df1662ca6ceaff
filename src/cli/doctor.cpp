// fourfold doctor: the items of job/health.h as a table with colours.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/styled_text.h"
#include "cli/commands.h"
#include "job/health.h"
#include "rundir/run_record.h"
#include "screen/rows.h"
#include "screen/terminal.h"

namespace fourfold::cli {
namespace {

using job::HealthItem;
using job::Verdict;

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

}  // namespace

void doctor(const DoctorArguments& arguments) {
  const HostFacts host = host_facts();
  const std::vector<HealthItem> items =
      job::health(host, rundir::telling_variables(), arguments.variable);
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

}  // namespace fourfold::cli
