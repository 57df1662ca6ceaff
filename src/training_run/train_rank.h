// What each rank of a training run does, from its memory to the weights at the end. What is decided
// before any rank starts: train.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "comm/stop_request.h"
#include "comm/world.h"
#include "data/source.h"
#include "job/job.h"
#include "measure/peak.h"
#include "program/program.h"
#include "rundir/run_record.h"
#include "rundir/start.h"
#include "screen/log.h"
#include "train/observer.h"
#include "training_run/predicted_run.h"
#include "training_run/train.h"

namespace fourfold::training_run {

/// What the ranks of a run share.
struct TrainingRun {
  const TrainArguments& arguments;
  const job::Job& job;
  const data::Source& source;
  const rundir::JobFacts& facts;
  const std::optional<measure::MeasuredPeak>& peak;
  const rundir::StartRequest& request;
  const rundir::RunStart& start;
  comm::StopRequest& stop;
  std::string shared_cores;  // as shared_cores() says it
  std::string grids;         // among which the planner chose; empty: it did not
  screen::Log& log;
  measure::CudaForThreads* gpu = nullptr;    // that ranks share
  const PredictedStep* predicted = nullptr;  // of the first rank; null: nothing was
};

/// True if this rank speaks for the job.
inline bool is_first(const comm::World* world) {
  return world == nullptr || world->rank().index() == 0;
}

/// What a run says that was asked to stop before it had anything to save.
inline constexpr std::string_view stopped_at_start =
    "stopped, as asked, before anything was written; the same command begins again";

/// What a session cannot see in the program, of this job.
train::RunFacts facts_of(const job::Job& job, const CountUnit& unit,
                         const std::optional<measure::MeasuredPeak>& peak);

/// Trains this rank's part; the first rank shows and writes. All ranks call together, each with its
/// own bundle; `world` is null where there is one. Whether the run was stopped. Errors: those of
/// the run, on the rank where they arise.
bool train_rank(const TrainingRun& run, const program::Bundle& bundle, comm::World* world);

}  // namespace fourfold::training_run
