// Runs the programs of a bundle on a backend: step block in, all instructions, result block out.
// Not the training loop (train/).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "run/backend.h"
#include "trace/recorder.h"

namespace fourfold::run {

/// Of one program run on this rank.
struct RunTimes {
  double total_s = 0;
  /// The math stream stood still for communication: other ranks that were late count too.
  double exposed_communication_s = 0;
  double feed_wait_s = 0;  // it stood still for the feed
};

class Executor {
 public:
  /// Binds the backend to the bundle. Both must outlive the executor.
  Executor(const program::Bundle& bundle, Backend& backend);

  const program::Bundle& bundle() const { return bundle_; }

  /// Runs a program by name for the given step block. A step's parity is step mod 2.
  op::ResultBlock run(std::string_view program, const op::StepBlock& step,
                      Feeder* feeder = nullptr);

  /// As `run`, but finishes each instruction before the next and calls `after` behind it; for
  /// finding a bad value, for tests and traces. Same bits as `run`.
  using After = std::function<void(const program::Program&, std::size_t instruction)>;
  op::ResultBlock run_stepwise(std::string_view program, const op::StepBlock& step, Feeder* feeder,
                               const After& after);

  /// From now on `run` writes down when its instructions ran; null: no more.
  void set_recorder(trace::Recorder* recorder) { recorder_ = recorder; }

  /// Of the last run.
  RunTimes times() const { return times_; }

  /// The bytes of a buffer (its copy of the given parity), by buffer or by name; throws
  /// InternalError when there is none.
  HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity = 0);
  HostView<std::byte> bytes(std::string_view program, std::string_view buffer,
                            std::int64_t parity = 0);
  /// To read alone.
  HostView<const std::byte> read(const program::Buffer& buffer, std::int64_t parity = 0);

 private:
  struct Entry {
    const program::Program* program;
    ProgramId id;
  };
  const Entry& find(std::string_view program) const;
  void begin(const Entry& entry, const op::StepBlock& step, Feeder* feeder);
  op::ResultBlock end();

  const program::Bundle& bundle_;
  Backend& backend_;
  std::vector<Entry> entries_;
  trace::Recorder* recorder_ = nullptr;
  std::int64_t begin_ns_ = 0, end_ns_ = 0;  // of the last run
  RunTimes times_;
};

}  // namespace fourfold::run
