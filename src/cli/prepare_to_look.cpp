#include "cli/prepare_to_look.h"

#include <utility>

#include "base/error.h"
#include "config/changes.h"
#include "job/open_grid.h"
#include "job/settle.h"
#include "job/specify.h"
#include "screen/print.h"

namespace fourfold::cli {

namespace {

/// Settles the run and gives back what `make` makes of it.
template <class Make>
auto settle_to_look(const config::Config& config, std::optional<std::int64_t> ranks,
                    const std::string& machine, Make&& make) {
  const config::Config with_model = config::with_model(config, job::model_of(config, nullptr));
  if (!config.leaves_plan_open()) return make(job::settle(with_model, {.ranks = ranks}));
  const config::Config asked =
      machine.empty() ? with_model : config::with_machine(with_model, machine);
  job::RanksThere there = job::ranks_of_this_host(config);
  if (ranks) there = {*ranks, *ranks};
  const job::ChosenGrid chosen =
      job::choose_grid(asked, there.ranks, job::machine_of(asked, there));
  screen::tell("grid: " + chosen.text);
  return make(job::settle(config::with_choice(with_model, chosen), {.ranks = there.ranks}));
}

}  // namespace

job::Job prepare_to_look(const config::Config& config, std::optional<std::int64_t> ranks,
                         const compile::PassOptions& passes, const std::string& machine) {
  return settle_to_look(config, ranks, machine, [&](config::Settled settled) {
    return job::prepare(std::move(settled), {.purpose = job::Purpose::look, .passes = passes});
  });
}

program::Job specify_to_look(const config::Config& config, std::optional<std::int64_t> ranks) {
  return settle_to_look(config, ranks, {},
                        [](const config::Settled& settled) { return job::specify(settled); });
}

void refuse_open_grid(const config::Config& config) {
  if (config.leaves_plan_open())
    throw UserError(ExitCode::bad_config,
                    "auto of parallel.tensor, parallel.pipeline.stages and parallel.strategy is "
                    "settled by train, plan, program, verify and simulate; give numbers here, as "
                    "`fourfold plan` prints them, and the file of `fourfold plan -o FILE` as "
                    "parallel.layout");
}

}  // namespace fourfold::cli
