#include "cli/prepare_to_look.h"

#include "base/error.h"
#include "config/changes.h"
#include "job/open_grid.h"
#include "job/settle.h"
#include "screen/print.h"

namespace fourfold::cli {

job::Job prepare_to_look(const config::Config& config, std::optional<std::int64_t> ranks,
                         const compile::PassOptions& passes, const std::string& machine) {
  const job::HowToPrepare how{.purpose = job::Purpose::look, .passes = passes};
  const config::Config with_model = config::with_model(config, job::model_of(config, nullptr));
  if (!config.open_axes.are_planned())
    return job::prepare(job::settle(with_model, {.ranks = ranks}), how);
  const config::Config asked =
      machine.empty() ? with_model : config::with_machine(with_model, machine);
  job::RanksThere there = job::ranks_of_this_host(config);
  if (ranks) there = {*ranks, *ranks};
  const job::ChosenGrid chosen =
      job::choose_grid(asked, there.ranks, job::machine_of(asked, there));
  screen::tell("grid: " + chosen.text);
  return job::prepare(job::settle(config::with_choice(with_model, chosen), {.ranks = there.ranks}),
                      how);
}

void refuse_open_grid(const config::Config& config) {
  if (config.open_axes.are_planned())
    throw UserError(ExitCode::bad_config,
                    "parallel.tensor = auto and parallel.pipeline.stages = auto are settled by "
                    "train, plan, program, verify and simulate; give numbers here, as `fourfold "
                    "plan` prints them");
}

}  // namespace fourfold::cli
