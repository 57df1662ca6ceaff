// The files of a run directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/units.h"

namespace fourfold::rundir {

struct RunFiles {
  static constexpr const char* config = "config.resolved.yaml";
  static constexpr const char* command = "command.txt";
  static constexpr const char* environment = "env.json";
  static constexpr const char* plan = "plan.txt";
  static constexpr const char* grids = "grids.txt";            // among which the planner chose
  static constexpr const char* kernel_table = "kernels.yaml";  // where run.kernel_table names one
  static constexpr const char* layout = "layout.txt";  // where one is given or was searched for
  static constexpr const char* tokenizer = "tokenizer.json";
  static constexpr const char* metrics = "metrics.jsonl";
  static constexpr const char* log = "log.rank0.txt";
  static constexpr const char* lock = "lock";      // while a job works here, see run_lock.h
  static constexpr const char* status = "status";  // a folder: how each rank ended
  static constexpr const char* checkpoints = "checkpoints";  // a folder, see checkpoint/store.h
  static constexpr const char* traces = "traces";            // a folder
  static constexpr const char* trace = "traces/steps.json";
  static constexpr const char* sessions = "sessions";  // a folder, see sessions.h
  static constexpr const char* sample = "sample.txt";
  static constexpr const char* prediction = "prediction.json";  // beside what was measured
  static constexpr const char* tensorboard = "tensorboard";     // a folder
};

inline std::string grouped(std::size_t number) {
  return format_grouped(static_cast<std::int64_t>(number));
}

}  // namespace fourfold::rundir
