#include "job/kept_checkpoints.h"

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "job/resume_rules.h"

namespace fourfold::job {
namespace {

void add(std::string& words, const std::string& more) {
  words += (words.empty() ? "" : ", ") + more;
}

}  // namespace

std::map<std::int64_t, std::string> kept_checkpoints(const checkpoint::Store& store) {
  std::map<std::int64_t, std::string> kept;
  for (const std::int64_t step : store.steps()) {
    try {
      const auto every =
          config::stored(store.open(step).manifest.config).train.checkpoint.keep_every;
      if (every > 0 && step % every == 0)
        add(kept[step], format("every {} steps", format_grouped(every)));
    } catch (const UserError&) {
      kept[step];
    }
  }
  const auto newest = store.newest().found;
  if (newest && config::stored(newest->manifest.config).train.checkpoint.keep_best > 0)
    for (const checkpoint::Evaluated& one : newest->manifest.best)
      add(kept[one.step], format("validation loss {:.4f}", one.loss));
  return kept;
}

}  // namespace fourfold::job
