// The metrics of a run for TensorBoard: which tags there are. Records and files:
// tensorboard_events.h, tensorboard_writer.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "interop/tensorboard_writer.h"
#include "train/observer.h"

namespace fourfold::interop {

class TensorboardLog : public train::Observer {
 public:
  /// Writes to a folder of the run directory; `first_step` steps are done already, and what earlier
  /// files say of later ones is taken back. `files` must outlive it; `warn`
  /// is told what goes wrong, which stops nothing.
  TensorboardLog(FileSystem& files, const std::string& folder, std::int64_t first_step,
                 std::function<void(const std::string&)> warn);
  /// Says how much was dropped, if anything was.
  ~TensorboardLog() override;

  void step(const train::StepMetrics& metrics) override;
  void end(const train::TrainResult& result) override;
  /// Markdown under a tag, beside the last step.
  void text(std::string_view tag, std::string_view markdown);

 private:
  bool is_restart_;  // there are records of an earlier start
  TensorboardWriter writer_;
  std::function<void(const std::string&)> warn_;
  std::int64_t last_step_;
};

/// As Markdown shows it: a block of text as it stands.
std::string as_block(std::string_view text);

}  // namespace fourfold::interop
