// A training run, from its configuration to its weights: what is settled before any rank starts,
// and the start of all ranks. What each of them then does: train_rank.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/launcher.h"
#include "job/config_source.h"
#include "rundir/resume.h"

namespace fourfold::training_run {

/// What is asked of a run.
struct TrainArguments {
  job::ConfigSource config;
  bool overwrite = false;   // an earlier run's directory may be used again
  bool dry_run = false;     // everything but the training
  bool no_weights = false;  // the weights are not written at the end
  std::int64_t trace = 0;   // steps to trace
  rundir::ResumeChoice resume;
  std::optional<std::int64_t> stop_at;  // ends after so many steps; the schedule stays
  bool take_over = false;               // the lock of a job that cannot be seen to live
  std::string color = "auto";           // or "always", "never"
  std::vector<std::string> command;     // the words of the command line
  comm::Variable variable;              // of the environment
  comm::LauncherFacts launcher;
};

/// Trains, evaluates, saves the weights and shows a sample. The run directory must not hold an
/// earlier run, unless the arguments say that it may, or the run goes on from it. The ranks are
/// threads of this process, or the processes of a launcher, of which each calls it. Prints as it
/// goes; all files are in the run directory. Errors: UserError of each thing that is wanted, and
/// UserError(stopped) for a run that was asked to end.
void train(const TrainArguments& arguments);

}  // namespace fourfold::training_run
