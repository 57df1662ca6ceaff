// Runs the programs of a bundle on a backend: step block in, all instructions, result block out.
// Not the training loop (train/).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "run/backend.h"
#include "trace/recorder.h"

namespace fourfold::run {

/// The times of one program run on this rank.
struct RunTimes {
  double total_s = 0;  // where it was started ahead: since the one before it finished
  /// The math stream stood still for communication: other ranks that were late count too.
  double exposed_communication_s = 0;
  double feed_wait_s = 0;  // it stood still for the feed
};

class Executor {
 public:
  /// Binds the backend to the bundle. Both must outlive the executor.
  Executor(const program::Bundle& bundle, Backend& backend);

  const program::Bundle& bundle() const { return bundle_; }

  /// Runs a program of the bundle for the given step block. A step's parity is step mod 2.
  op::ResultBlock run(op::ProgramKind program, const op::StepBlock& step, Feeder* feeder = nullptr);

  /// `run` in two halves. Where `runs_ahead`, the next step of a program may be started before this
  /// one is finished, so that a device never waits for the host; results come in the order of
  /// starts. After what throws, nothing that was started is left.
  void start(op::ProgramKind program, const op::StepBlock& step, Feeder* feeder = nullptr);
  op::ResultBlock finish();
  /// False while steps are recorded.
  bool runs_ahead() const { return recorder_ == nullptr && backend_.runs_ahead(); }
  /// Finishes what was started; nobody asks for its results, nor for its faults.
  void drain();

  /// As `run`, but finishes each instruction before the next and calls `after` after it; for one
  /// rank, or for ranks of one mesh: stages of a pipeline would wait for each other for ever. Same
  /// bits as `run`.
  using After = std::function<void(const program::Program&, std::size_t instruction)>;
  op::ResultBlock run_stepwise(op::ProgramKind program, const op::StepBlock& step, Feeder* feeder,
                               const After& after);

  /// As `run`, and calls `after` after each instruction while what it wrote is still there. Ranks
  /// and streams wait for each other as in `run`, so it ends where `run` does, also where a rank
  /// receives what another one makes later in its list; calls overlap (Backend::watch). Where a
  /// backend has one thread for all its streams it is `run_stepwise`.
  op::ResultBlock run_watched(op::ProgramKind program, const op::StepBlock& step, Feeder* feeder,
                              const After& after);

  /// From now on `run` writes down when its instructions ran; null: no more.
  void set_recorder(trace::Recorder* recorder) { recorder_ = recorder; }

  /// The times of the last run.
  RunTimes times() const { return times_; }

  /// The bytes of a buffer (its copy of the given parity), by buffer or by name; throws
  /// InternalError when there is none. Parameters that are written so are rounded again, where the
  /// bundle keeps rounded copies of them, before the next program begins.
  HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity = 0);
  HostView<std::byte> bytes(op::ProgramKind program, std::string_view buffer,
                            std::int64_t parity = 0);
  /// To read alone.
  HostView<const std::byte> read(const program::Buffer& buffer, std::int64_t parity = 0);

 private:
  struct Entry {
    const program::Program* program;
    ProgramId id;
  };
  const Entry& find(op::ProgramKind program) const;
  op::ResultBlock end(std::int64_t begin_ns);
  void note_written(const program::Buffer& buffer);
  void round_written();

  const program::Bundle& bundle_;
  Backend& backend_;
  std::vector<Entry> entries_;
  trace::Recorder* recorder_ = nullptr;
  struct Rounded {
    const program::Buffer *parameter, *copy;
    bool is_stale = false;  // the host may have written the parameter
  };
  std::vector<Rounded> rounded_;
  std::array<std::int64_t, 2> begin_ns_{};  // of those under way, the first one first
  std::size_t num_under_way_ = 0;
  std::int64_t end_ns_ = 0;  // of the last run
  RunTimes times_;
};

}  // namespace fourfold::run
