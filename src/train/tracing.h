// Traces some steps of a training run and writes the file. On every rank; the first one writes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/ids.h"
#include "comm/world.h"
#include "program/program.h"
#include "run/executor.h"
#include "trace/recorder.h"
#include "trace/timeline.h"
#include "train/observer.h"

namespace fourfold::train {

/// Steps before the first one that is traced: they bring memory and caches in.
constexpr std::int64_t num_warm_up_steps = 2;

/// Errors: UserError(bad_config) where a run of `steps` has too few for that many to be traced.
void check_trace(std::int64_t steps, std::int64_t num_traced);

/// What is traced, and where it goes.
struct TraceSpec {
  std::int64_t num_steps = 0;
  std::string path;  // of a file, whose folder is made
  /// The program "train" of a rank.
  std::function<program::Program(Rank)> program_of;
  /// The same steps as they were predicted, for the file; null: they were not. On the first rank.
  const trace::Timeline* predicted = nullptr;
  /// Called on the first rank with what the file that is there now holds of the run.
  std::function<void(const trace::Timeline&)> written;
};

class Tracing : public Observer {
 public:
  /// Traces steps of the executor's program "train". All ranks construct it together; the executor
  /// and the world must outlive it.
  Tracing(TraceSpec spec, run::Executor& executor, comm::World* world);
  ~Tracing() override;

  /// Writes the file after the last step that is traced.
  void step(const StepMetrics& metrics) override;
  /// Writes what there is of it when the run ends before.
  void end(const TrainResult& result) override;

 private:
  void write();

  TraceSpec spec_;
  run::Executor& executor_;
  comm::World* world_;
  trace::Recorder recorder_;
  bool is_written_ = false;
};

}  // namespace fourfold::train
