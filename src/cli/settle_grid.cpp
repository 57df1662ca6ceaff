#include "cli/settle_grid.h"

#include "base/error.h"
#include "job/open_grid.h"
#include "screen/print.h"

namespace fourfold::cli {

std::optional<std::int64_t> settle_open_grid(config::Config& config,
                                             std::optional<std::int64_t> ranks,
                                             const std::string& machine) {
  if (!config.open_axes.any()) return ranks;
  config::Config asked = config;
  if (!machine.empty()) asked.machine = machine;
  job::RanksThere there = job::ranks_of_this_host(config);
  if (ranks) there = {*ranks, *ranks};
  const job::ChosenGrid chosen =
      job::choose_grid(asked, there.ranks, job::machine_of(asked, there));
  job::settle_grid(config, chosen);
  screen::tell("grid: " + chosen.text);
  return there.ranks;
}

void refuse_open_grid(const config::Config& config) {
  if (config.open_axes.any())
    throw UserError(ExitCode::bad_config,
                    "parallel.tensor = auto and parallel.pipeline.stages = auto are settled by "
                    "train, plan, program, verify and simulate; give numbers here, as `fourfold "
                    "plan` prints them");
}

}  // namespace fourfold::cli
