// What is settled before the ranks of a run start: its configuration, data, grid, programs and
// kernels, the same for all processes of a launcher. Not the run's folder (train.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/launch.h"
#include "data/source.h"
#include "job/find_kernels.h"
#include "job/job.h"
#include "measure/peak.h"
#include "rundir/run_record.h"
#include "screen/log.h"
#include "training_run/predicted_run.h"
#include "training_run/train.h"

namespace fourfold::training_run {

struct PreparedRun {
  std::unique_ptr<const data::Source> source;
  job::Job job;
  std::string grid;     // what the planner chose, in words, on the first process; empty: nothing
  std::string ranking;  // the best grids, where it chose now, on the first process
  job::FoundKernels kernels;
  rundir::JobFacts facts;
  std::optional<measure::MeasuredPeak> peak;
  std::optional<PredictedStep> predicted;  // on the first process
  std::string reading_time;
  std::string equality;               // with the serial program, in words, on the first process
  std::vector<std::string> notes;     // what people should know of the configuration
  std::vector<std::string> warnings;  // by process; empty texts: none
};

/// All processes call together. The first one alone chooses a grid, measures kernels and predicts a
/// step. Errors: those of whatever is read, planned, compiled, proved or compared, on all
/// processes. `passes`: who looks on while it is compiled.
PreparedRun prepare_run(const TrainArguments& arguments, comm::Together& together, screen::Log& log,
                        const compile::PassOptions& passes = {});

/// Seconds without progress after which a run with this configuration ends.
double watchdog_s(const config::Config& config);

}  // namespace fourfold::training_run
