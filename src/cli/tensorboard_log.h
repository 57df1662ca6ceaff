// The metrics of a run for TensorBoard: which tags there are. Records and files: interop/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "interop/tensorboard_writer.h"
#include "screen/log.h"
#include "train/observer.h"

namespace fourfold::cli {

class TensorboardLog : public train::Observer {
 public:
  /// Writes to a folder of the run directory; `first_step` steps are done already, and what earlier
  /// files say of later ones is taken back. `files` and `log` must outlive it.
  TensorboardLog(FileSystem& files, const std::string& folder, std::int64_t first_step,
                 screen::Log& log);
  /// Says how much was dropped, if anything was.
  ~TensorboardLog() override;

  void step(const train::StepMetrics& metrics) override;
  void end(const train::TrainResult& result) override;
  /// Markdown under a tag, beside the last step.
  void text(std::string_view tag, std::string_view markdown);

 private:
  bool is_restart_;  // there are records of an earlier start
  interop::TensorboardWriter writer_;
  screen::Log& log_;
  std::int64_t last_step_;
};

/// As Markdown shows it: a block of text as it stands.
std::string as_block(std::string_view text);

}  // namespace fourfold::cli
