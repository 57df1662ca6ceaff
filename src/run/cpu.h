// The backend for one rank on the CPU: an arena, a thread for every stream in use, kernels of
// kernels/cpu. Streams run side by side; Record and Wait order them, as events do on a GPU.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.h"
#include "run/arena.h"
#include "run/backend.h"
#include "run/prepared_program.h"
#include "run/recorded_events.h"
#include "run/stream_worker.h"

namespace fourfold::run {

struct CpuOptions {
  int threads = 1;  // that a kernel may use
  /// For memory tests: fills the arena with Arena::paint_word once it is bound, instead of zeros.
  enum class Fresh { zeros, paint } fresh = Fresh::zeros;
  /// The ranks of the job; null where this rank is alone. Must outlive the backend. All ranks bind
  /// together.
  comm::World* world = nullptr;
  /// Where feeders read, for whoever watches a run that stands still.
  std::string data_name = {};
  /// For tests: runs of programs, and what each stream does, are counted from here, modulo 2^32.
  std::uint32_t first_count = 0;
};

/// With several ranks, a fault in an instruction ends the job on all of them: the reason, with rank
/// and instruction, goes to comm::World::abort_all, and `finish` throws on every rank (threads) or
/// never returns (MPI).

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(CpuOptions options = {});
  ~CpuBackend() override;

  void bind(const program::Bundle& bundle) override;
  void begin(ProgramId program, const op::StepBlock& step, Feeder* feeder) override;
  void issue(ProgramId program, std::size_t instruction) override;
  void finish() override;
  op::ResultBlock result() override;
  void trace_next(std::span<trace::Interval> intervals) override;
  bool watch(Watch watch) override;
  MathWaits math_waits() const override { return math_waits_; }
  HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity) override;

  /// Pages of a region nobody has written since bind painted them.
  Arena::Pages pages(program::Region region) const { return arena_.pages(region); }

  /// For tests, between programs: from now on, after this instruction of the program, element
  /// `element` of its output number `output` turns to NaN.
  struct Fault {
    op::ProgramKind program = op::ProgramKind::train;
    std::size_t instruction = 0;
    std::size_t output = 0;
    std::int64_t element = 0;
  };
  void inject(const Fault& fault);

 private:
  void give_room(PreparedProgram& prepared);
  void start_workers();
  void prepare_kernels();
  void show_progress();
  void execute(std::size_t instruction);
  void carry_out_one(const PreparedInstruction& instruction);
  // One for each kind of prepared instruction: a new one does not compile until it has its own.
  void carry_out(const PreparedNothing&) const {}
  void carry_out(const PreparedCompute& compute) const;
  void carry_out(const PreparedCollective& collective) const;
  void carry_out(const PreparedMessage& message) const;
  void carry_out(const PreparedReorder& reorder) const;
  void carry_out(const PreparedCopy& copy) const;
  void carry_out(const PreparedFeed& feed) const;
  void carry_out(const PreparedRecord& mark) { events_.record(mark.event); }
  void carry_out(const PreparedWait& hold) { wait(hold); }
  void end_job(std::size_t instruction, const std::exception& exception);
  void wait(const PreparedWait& wait);
  void fail(std::exception_ptr fault);

  CpuOptions options_;
  Arena arena_;
  std::vector<PreparedProgram> programs_;
  std::vector<std::vector<std::byte>> message_rooms_;  // of each stream of each program
  std::vector<std::string> stream_names_;              // of the workers

  // What the workers read of the program under way. Written between programs, published by the
  // first push.
  const PreparedProgram* current_ = nullptr;
  std::size_t program_ = 0;  // its index
  std::size_t parity_ = 0;
  std::int64_t step_ = 0;
  Feeder* feeder_ = nullptr;
  std::span<trace::Interval> intervals_;  // empty: the run is not traced
  Watch watch_;                           // empty: nobody watches
  RecordedEvents events_;
  // Set by the first fault; the workers then skip what is left, and waits are let through.
  std::atomic<bool> faulted_{false};
  std::exception_ptr fault_;
  bool idle_ = true;
  // Written by the math stream's worker, read when it is done.
  MathWaits math_waits_;
  std::int64_t math_end_ns_ = 0;

  std::vector<std::unique_ptr<StreamWorker>> workers_;  // last: they end before what they use
};

}  // namespace fourfold::run
