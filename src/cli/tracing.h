// Traces some steps of a training run and writes the file. On every rank; the first one writes.
#pragma once

#include <cstdint>

#include "comm/world.h"
#include "job/job.h"
#include "run/executor.h"
#include "screen/log.h"
#include "trace/recorder.h"
#include "train/observer.h"

namespace fourfold::cli {

/// Steps before the first one that is traced: they bring memory and caches in.
constexpr std::int64_t num_warm_up_steps = 2;

/// Errors: UserError(bad_config) where the run has too few steps for that many to be traced.
void check_trace(const job::Job& job, std::int64_t num_steps);

class Tracing : public train::Observer {
 public:
  /// Traces that many steps of the executor's program "train". All ranks construct it together;
  /// everything passed must outlive it; `log` is null but on the first rank.
  Tracing(const job::Job& job, std::int64_t num_steps, run::Executor& executor, comm::World* world,
          screen::Log* log);
  ~Tracing() override;

  /// Writes the file behind the last step that is traced.
  void step(const train::StepMetrics& metrics) override;
  /// Writes what there is of it when the run ends before.
  void end(const train::TrainResult& result) override;

 private:
  void write();

  const job::Job& job_;
  run::Executor& executor_;
  comm::World* world_;
  screen::Log* log_;
  trace::Recorder recorder_;
  bool is_written_ = false;
};

}  // namespace fourfold::cli
