// The folder of a run, made the run's own once everything else has worked. What it holds before,
// and whether the run may have it: start.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "rundir/run_record.h"
#include "rundir/sessions.h"
#include "rundir/start.h"

namespace fourfold::rundir {

/// What describes a run and this start of it, as its files have it; an empty text makes no file.
struct RunTexts {
  std::string config, plan, grids, layout, kernel_table, tokenizer;
  std::vector<std::string> command;  // the words of the command line
  BuildRecord build;
};

/// Takes away what ended jobs left half-written and, where the run goes back, sets later saves,
/// metrics and weights aside in a line; then writes what describes the run. `origin`: the
/// checkpoint whose state is loaded. Errors: UserError(storage).
Session open_run_directory(const StartRequest& request, const RunStart& start,
                           const std::optional<checkpoint::Found>& origin, const JobFacts& facts,
                           const RunTexts& texts, const comm::Variable& variable);

}  // namespace fourfold::rundir
