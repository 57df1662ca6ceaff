// The backend for one rank on a GPU: both regions in device memory, a CUDA stream for every stream
// in use, Record and Wait as events, and each program captured into a CUDA graph for each parity,
// so that a step is one launch. Not the CUDA runtime (device.h), not the kernels, not what passes
// between ranks (comm/device_world.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/device_world.h"
#include "comm/world.h"
#include "run/backend.h"
#include "run/cuda/device.h"
#include "run/cuda/exchange_marks.h"
#include "run/cuda/instruction_times.h"
#include "run/cuda/issuing_threads.h"
#include "run/cuda/move.h"
#include "run/cuda/pinned_blocks.h"
#include "run/cuda/pinned_feeds.h"
#include "run/cuda/staging.h"
#include "run/prepared_program.h"

namespace fourfold::run::cuda {

/// As kernels::cuda::prepare.
using PrepareKernel =
    std::function<kernels::cuda::Enqueue(std::string_view, const kernels::Problem&)>;

struct CudaOptions {
  PrepareKernel prepare;
  /// The ranks of the job, for whoever watches the run too; may be null where this one is alone.
  comm::World* world = nullptr;
  /// What passes tensors between them; null where this rank is alone. All ranks bind together.
  comm::DeviceWorld* device_world = nullptr;
  /// Memory that other ranks work in too: its owner outlives all their backends. Empty: memory is
  /// the backend's own.
  std::function<std::byte*(std::int64_t bytes)> allocate = {};
  std::int64_t staging_block_bytes = Staging::default_block_bytes;
};

/// The first run of a program, traced runs, runs by single instructions and programs whose kernels
/// wait on the host are enqueued as they are; all others are launched as a graph. A fault names the
/// rank, and the instruction where that is known; the first one wins, and is thrown when its run is
/// finished.
///
/// If exchanges between ranks can be captured, every kernel and every move runs once when programs
/// are bound: CUDA loads code when the code is first used, and waits for the whole device to do so,
/// where a kernel may be waiting for a rank whose host waits likewise.
///
/// With several ranks, a fault ends the job on all of them, as on the CPU. Where what passes
/// between ranks can be captured, the device may wait for a rank that is gone: whoever waits for
/// the device asks DeviceWorld::check again and again, and after a fault gives up its graphs and
/// calls DeviceWorld::abort before anything else waits for the device. What it waits for is read
/// from marks (exchange_marks.h). Where it cannot, ranks meet on the host:
/// every stream has a thread that gives it its work (issuing_threads.h), nothing is captured, and
/// no step begins ahead.
class CudaBackend : public Backend {
 public:
  /// The device, and the worlds, must outlive the backend.
  CudaBackend(Device& device, CudaOptions options);
  ~CudaBackend() override;

  /// Errors: UserError(environment) for programs of several ranks where this one is alone,
  /// UserError(out_of_memory).
  void bind(const program::Bundle& bundle) override;
  void begin(ProgramId program, const op::StepBlock& step, Feeder* feeder) override;
  void issue(ProgramId program, std::size_t instruction) override;
  void issue_all(ProgramId program, std::size_t count) override;
  bool runs_ahead() const override { return threads_ == nullptr; }
  void finish() override;
  op::ResultBlock result() override;
  void trace_next(std::span<trace::Interval> intervals) override { intervals_ = intervals; }
  bool watch(Watch watch) override;
  MathWaits math_waits() const override { return done_.math_waits; }
  HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity) override;
  HostView<const std::byte> read(const program::Buffer& buffer, std::int64_t parity) override;

 private:
  /// What the device does for an instruction, beyond what PreparedProgram says.
  struct Work {
    Stream stream = nullptr;
    kernels::cuda::Enqueue kernel;
    ByParity<Move> moves;
    std::string name;  // for profilers
    std::optional<ExchangeMarks::Exchange> marked = {};
  };
  struct Loaded {
    PreparedProgram prepared;
    std::vector<Work> works;
    std::unique_ptr<PinnedFeeds> feeds;
    std::vector<ExchangeMarks::Exchange> exchanges;  // that are marked
    std::unique_ptr<InstructionTimes> times;         // made for the first traced run
    ByParity<OwnedGraph> graphs;
    bool waits_on_host = false, has_run = false;
  };
  /// A run of a program. Blocks and feeds in pinned memory are those of its parity.
  struct Run {
    Loaded* loaded = nullptr;
    std::size_t program = 0, parity = 0;
    std::int64_t step = 0;
    Feeder* feeder = nullptr;
    std::span<trace::Interval> intervals = {};
    std::exception_ptr fault = nullptr;
    MathWaits math_waits = {};
    bool is_fed = false, is_open = false, is_closed = false;
    bool is_whole = false;  // everything was issued at once
  };

  std::byte* allocate(std::int64_t bytes);
  void prepare(const program::Program& program);
  void give_rooms();
  void load(Loaded& loaded);
  void mark_exchanges();
  void rehearse();
  void rehearse_blocks(const PreparedBlocks& blocks);
  void start_threads();
  Work work_of(const Loaded& loaded, std::size_t instruction);
  Stream stream_of(const std::string& name);
  void show_progress();

  void leave_idle();
  void begin_ahead(ProgramId program, const op::StepBlock& step);
  void fill_feeds();
  void fill_feeds_ahead();
  void enqueue_plainly();
  void push_all();
  void launch_graph();
  OwnedGraph capture();
  void open();
  void clear_result(std::byte* block);
  void enqueue(std::size_t instruction);
  void enqueue_named(std::size_t instruction);
  void issue_on_thread(std::size_t thread, std::size_t instruction);
  void carry_out(std::size_t instruction);
  void carry_out(const PreparedMessage& message, const Work& work);
  void close();
  void finish_first();
  void finish_all();
  /// Waits for a stream or an event.
  template <class Awaited>
  void wait_for(Awaited awaited);
  void tell_begin();
  void tell_device_begin();
  void tell_end();
  void leave_device();
  void drain();
  bool is_faulty(const Run& run) const;
  /// Runs `what` for a run; the first exception is kept, as that of an instruction or of the whole
  /// program.
  template <class What>
  void guard(Run& run, std::optional<std::size_t> instruction, const What& what);
  void fail(Run& run, std::optional<std::size_t> instruction, const std::exception& exception);
  std::exception_ptr fault_at(const std::string& where, const std::exception& exception) const;
  std::string place_in(const Run& run) const;
  std::exception_ptr fault_of_thread(const IssuingThreads::Fault& fault) const;
  void end_job(const std::exception_ptr& fault) const;
  void show(std::size_t instruction);
  std::unique_ptr<std::byte[]> copy_of(std::span<const std::byte> memory);

  Device& device_;
  CudaOptions options_;
  std::vector<DeviceMemory> memory_;
  Regions regions_;
  std::unique_ptr<PinnedBlocks> blocks_;
  std::unique_ptr<ExchangeMarks> marks_;  // where exchanges are part of a graph
  OwnedStream main_;                      // begins and ends every program
  std::unique_ptr<Staging> staging_;
  std::vector<std::string> stream_names_;
  std::vector<OwnedStream> streams_;
  std::vector<OwnedEvent> joins_;  // of the streams
  OwnedEvent fork_;
  OwnedEvent first_ended_;          // of two runs
  std::vector<OwnedEvent> events_;  // of the programs
  std::vector<std::unique_ptr<Loaded>> programs_;

  std::optional<Run> first_;  // still under way, and another began after it
  Run run_;                   // began last
  Run done_;                  // finished last
  bool idle_ = true;
  std::span<trace::Interval> intervals_;  // of the run that begins next
  std::optional<std::size_t> alone_;      // the only instruction since the last finish
  std::size_t issued_ = 0;                // since then
  std::exception_ptr fault_between_;      // of what was written between programs

  Watch watch_;
  // Held by the thread that shows an instruction: the main stream is its own meanwhile.
  std::mutex watching_;
  std::atomic<bool> is_shown_{false};

  std::vector<std::string> thread_names_;
  std::unique_ptr<IssuingThreads> threads_;  // last: they end before what they use
};

}  // namespace fourfold::run::cuda
