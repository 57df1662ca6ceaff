// The backend for one rank on one GPU: both regions in device memory, a CUDA stream for every
// stream in use, Record and Wait as events, and each program captured into a CUDA graph for each
// parity, so that a step is one launch. Not the CUDA runtime (device.h), not the kernels.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/world.h"
#include "run/backend.h"
#include "run/cuda/device.h"
#include "run/cuda/instruction_times.h"
#include "run/cuda/pinned_feeds.h"
#include "run/cuda/row_copies.h"
#include "run/cuda/staging.h"
#include "run/prepared_program.h"

namespace fourfold::run::cuda {

/// As kernels::cuda::prepare.
using PrepareKernel =
    std::function<kernels::cuda::Enqueue(std::string_view, const kernels::Problem&)>;

struct CudaOptions {
  PrepareKernel prepare;
  /// Of one rank; may be null. For whoever watches the run.
  comm::World* world = nullptr;
  std::int64_t staging_block_bytes = Staging::default_block_bytes;
};

/// The first run of a program, traced runs, runs by single instructions and programs whose kernels
/// wait on the host are enqueued as they are; all others are launched as a graph. A fault names the
/// rank, and the instruction where that is known; the first one wins.
class CudaBackend : public Backend {
 public:
  /// The device must outlive the backend.
  CudaBackend(Device& device, CudaOptions options);
  ~CudaBackend() override;

  /// Errors: UserError(environment) for programs of several ranks, UserError(out_of_memory).
  void bind(const program::Bundle& bundle) override;
  void begin(ProgramId program, const op::StepBlock& step, Feeder* feeder) override;
  void issue(ProgramId program, std::size_t instruction) override;
  void issue_all(ProgramId program, std::size_t count) override;
  void finish() override;
  op::ResultBlock result() override;
  void trace_next(std::span<trace::Interval> intervals) override { intervals_ = intervals; }
  MathWaits math_waits() const override { return math_waits_; }
  HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity) override;
  HostView<const std::byte> read(const program::Buffer& buffer, std::int64_t parity) override;

 private:
  /// What the device does for an instruction, beyond what PreparedProgram says.
  struct Work {
    Stream stream = nullptr;
    kernels::cuda::Enqueue kernel;
    ByParity<std::vector<RowCopy>> copies;
    ByParity<std::vector<RowClear>> clears;
    std::string name;  // for profilers
  };
  struct Loaded {
    PreparedProgram prepared;
    std::vector<Work> works;
    std::unique_ptr<PinnedFeeds> feeds;
    std::unique_ptr<InstructionTimes> times;  // made for the first traced run
    ByParity<OwnedGraph> graphs;
    bool waits_on_host = false, has_run = false;
  };
  void load(const program::Program& program);
  Work work_of(const Loaded& loaded, std::size_t instruction);
  Stream stream_of(const std::string& name);
  void show_progress();

  void leave_idle();
  void fill_feeds();
  void enqueue_plainly();
  void launch_graph();
  OwnedGraph capture();
  void open();
  void enqueue(std::size_t instruction);
  void carry_out(std::size_t instruction);
  void close();
  void drain_after_fault();
  /// Runs `what`; the first exception is kept, as that of an instruction or of the whole program.
  template <class What>
  void guard(std::optional<std::size_t> instruction, const What& what);
  void fail(std::optional<std::size_t> instruction, const std::exception& exception);
  void keep(const comm::Fault& fault, const std::string& where);
  std::unique_ptr<std::byte[]> copy_of(std::span<const std::byte> memory);

  Device& device_;
  CudaOptions options_;
  DeviceMemory memory_;
  Regions regions_;
  PinnedMemory blocks_;  // step and result blocks of both parities
  OwnedStream main_;     // begins and ends every program
  std::unique_ptr<Staging> staging_;
  std::vector<std::string> stream_names_;
  std::vector<OwnedStream> streams_;
  std::vector<OwnedEvent> joins_;  // of the streams
  OwnedEvent fork_;
  std::vector<OwnedEvent> events_;  // of the programs
  std::vector<std::unique_ptr<Loaded>> programs_;

  // The run under way.
  Loaded* current_ = nullptr;
  std::size_t program_ = 0, parity_ = 0;
  std::int64_t step_ = 0;
  Feeder* feeder_ = nullptr;
  std::span<trace::Interval> intervals_;
  MathWaits math_waits_;
  bool is_fed_ = false, is_open_ = false, is_closed_ = false, idle_ = true;
  std::optional<std::size_t> alone_;  // the only instruction since the last finish
  std::size_t issued_ = 0;            // since then
  std::exception_ptr fault_;
};

}  // namespace fourfold::run::cuda
