#include "run/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "program/text.h"
#include "run/describe.h"

namespace fourfold::run::cuda {
namespace {

/// What cudaMalloc gives at least, and more than any vector access needs.
constexpr std::int64_t region_alignment = 256;
/// Room for each block, apart from its neighbours' cache lines.
constexpr std::size_t block_room = 128;
static_assert(sizeof(op::StepBlock) <= block_room && sizeof(op::ResultBlock) <= block_room);

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + region_alignment - 1) / region_alignment * region_alignment;
}

RowCopy dense(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto row = static_cast<std::int64_t>(bytes);
  return {to, row, from, row, row, 1};
}

/// Kernels that wait for their stream cannot be captured.
bool waits_on_host(const program::Instruction& instruction) {
  const auto* compute = std::get_if<program::Compute>(&instruction.what);
  return compute != nullptr && std::holds_alternative<op::InitNormal>(compute->op);
}

}  // namespace

CudaBackend::CudaBackend(Device& device, CudaOptions options)
    : device_(device), options_(std::move(options)) {}

CudaBackend::~CudaBackend() {
  if (options_.world != nullptr) options_.world->progress().clear_workers();
  // Nothing may run in memory that is about to go.
  if (!idle_) drain_after_fault();
}

// --- once

void CudaBackend::bind(const program::Bundle& bundle) {
  require(programs_.empty(), "a backend is bound once");
  const std::int64_t persistent = aligned(bundle.persistent_bytes),
                     transient = aligned(bundle.transient_bytes);
  memory_ = make_memory(device_, std::max(persistent + transient, region_alignment));
  regions_ = {{memory_.get(), static_cast<std::size_t>(persistent)},
              {memory_.get() + persistent, static_cast<std::size_t>(transient)}};
  blocks_ = make_pinned(device_, 4 * block_room);
  main_ = make_stream(device_);
  fork_ = make_event(device_, Device::Timing::off);
  staging_ = std::make_unique<Staging>(device_, options_.staging_block_bytes);
  for (const program::Program& program : bundle.programs) load(program);
  show_progress();
}

void CudaBackend::load(const program::Program& program) {
  auto loaded = std::make_unique<Loaded>();
  loaded->prepared = prepare_program(program, regions_);
  loaded->feeds = std::make_unique<PinnedFeeds>(device_, loaded->prepared);
  while (events_.size() < program.num_events)
    events_.push_back(make_event(device_, Device::Timing::off));
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    loaded->works.push_back(work_of(*loaded, i));
    if (waits_on_host(program.instructions[i])) loaded->waits_on_host = true;
  }
  programs_.push_back(std::move(loaded));
}

CudaBackend::Work CudaBackend::work_of(const Loaded& loaded, std::size_t instruction) {
  const program::Program& program = *loaded.prepared.program;
  const program::Instruction& said = program.instructions[instruction];
  const auto& what = loaded.prepared.instructions[instruction].what;
  Work work;
  work.stream = stream_of(program.streams[said.stream.index()]);
  work.name = program::short_text(program, said);
  if (const auto* compute = std::get_if<program::Compute>(&said.what))
    work.kernel = options_.prepare(compute->implementation, {compute->op, compute->dtype,
                                                             program.operand_shapes(*compute), 1});
  for (const std::size_t parity : {0U, 1U})
    if (const auto* copy = std::get_if<PreparedCopy>(&what)) {
      work.copies[parity] = row_copies(copy->from[parity], copy->to[parity]);
    } else if (const auto* feed = std::get_if<PreparedFeed>(&what); feed != nullptr) {
      work.copies[parity] = {loaded.feeds->copy_of(instruction, parity)};
    } else if (const auto* order = std::get_if<PreparedReorder>(&what)) {
      work.copies[parity] =
          order->packs ? pack_copies(order->order, order->plain[parity], order->blocked[parity])
                       : unpack_copies(order->order, order->plain[parity], order->blocked[parity]);
      if (order->packs) work.clears[parity] = pack_padding(order->order, order->blocked[parity]);
    }
  return work;
}

Stream CudaBackend::stream_of(const std::string& name) {
  const auto place = std::ranges::find(stream_names_, name);
  if (place != stream_names_.end())
    return streams_[static_cast<std::size_t>(place - stream_names_.begin())].get();
  stream_names_.push_back(name);
  streams_.push_back(make_stream(device_));
  joins_.push_back(make_event(device_, Device::Timing::off));
  return streams_.back().get();
}

/// One worker stands for the whole device, which does not tell how far it is.
void CudaBackend::show_progress() {
  if (options_.world == nullptr) return;
  options_.world->progress().set_workers({"gpu"}, [this](comm::Place place) {
    return comm::Progress::Description{
        format("program {} on {}", programs_[place.program]->prepared.program->name,
               device_.name()),
        false};
  });
}

// --- a run

void CudaBackend::begin(ProgramId program, const op::StepBlock& step, Feeder* feeder) {
  require(idle_, "a program begins when the one before has finished");
  current_ = programs_[program.index()].get();
  program_ = program.index();
  parity_ = parity_of(step);
  step_ = step.step;
  feeder_ = feeder;
  math_waits_ = {};
  is_fed_ = is_open_ = is_closed_ = false;
  std::memcpy(blocks_.get() + parity_ * block_room, &step, sizeof step);
  if (options_.world != nullptr) options_.world->progress().set_step(step_);
}

/// What comes before anything is enqueued, once between two calls of finish.
void CudaBackend::leave_idle() {
  if (std::exchange(idle_, false) && options_.world != nullptr) {
    options_.world->progress().begin_program();
    options_.world->progress().begin(0, {program_, 0});
  }
  fill_feeds();
}

void CudaBackend::issue(ProgramId program, std::size_t instruction) {
  require(program.index() == program_, "instructions are those of the program that began");
  leave_idle();
  if (!is_open_) guard({}, [&] { open(); });
  is_closed_ = false;
  alone_ = ++issued_ == 1 ? std::optional(instruction) : std::nullopt;
  enqueue(instruction);
}

void CudaBackend::issue_all(ProgramId program, std::size_t count) {
  require(program.index() == program_ && count == current_->works.size(),
          "instructions are those of the program that began");
  leave_idle();
  if (current_->has_run && !current_->waits_on_host && intervals_.empty())
    guard({}, [&] { launch_graph(); });
  else
    enqueue_plainly();
  if (fault_) return;
  current_->has_run = true;
  if (feeder_ != nullptr && feeder_->feeds_ahead())
    current_->feeds->fill_ahead(step_ + 1, *feeder_);
}

void CudaBackend::fill_feeds() {
  if (std::exchange(is_fed_, true)) return;
  const std::int64_t begin_ns = trace::now_ns();
  current_->feeds->fill(step_, feeder_,
                        [&](std::size_t instruction, const std::exception& exception) {
                          fail(instruction, exception);
                        });
  math_waits_.feed_ns += trace::now_ns() - begin_ns;
}

void CudaBackend::enqueue_plainly() {
  guard({}, [&] { open(); });
  for (std::size_t i = 0; i < current_->works.size(); ++i) enqueue(i);
}

void CudaBackend::launch_graph() {
  OwnedGraph& graph = current_->graphs[parity_];
  if (graph == nullptr) graph = capture();
  device_.launch(graph.get(), main_.get());
  is_closed_ = true;
}

OwnedGraph CudaBackend::capture() {
  device_.begin_capture(main_.get());
  try {
    open();
    for (std::size_t i = 0; i < current_->works.size(); ++i) carry_out(i);
    close();
    return OwnedGraph(device_.end_capture(main_.get()), {&device_});
  } catch (const std::exception&) {
    device_.abandon_capture(main_.get());
    throw;
  }
}

/// What comes before the first instruction: blocks, and all streams behind the main one.
void CudaBackend::open() {
  is_open_ = true;
  const PreparedBlocks& blocks = current_->prepared.blocks;
  if (std::byte* step = blocks.step[parity_])
    device_.copy(dense(step, blocks_.get() + parity_ * block_room, sizeof(op::StepBlock)),
                 main_.get());
  if (std::byte* result = blocks.result[parity_])
    device_.clear(result, sizeof(op::ResultBlock), sizeof(op::ResultBlock), 1, main_.get());
  if (!intervals_.empty()) {
    if (current_->times == nullptr)
      current_->times = std::make_unique<InstructionTimes>(device_, current_->works.size());
    current_->times->begin(main_.get());
  }
  device_.record(fork_.get(), main_.get());
  for (const OwnedStream& stream : streams_) device_.wait(stream.get(), fork_.get());
}

void CudaBackend::enqueue(std::size_t instruction) {
  guard(instruction, [&] {
    const Work& work = current_->works[instruction];
    InstructionTimes* times = intervals_.empty() ? nullptr : current_->times.get();
    device_.push_range(work.name.c_str());
    if (times != nullptr) times->before(instruction, work.stream);
    carry_out(instruction);
    if (times != nullptr) times->behind(instruction, work.stream);
    device_.pop_range();
  });
}

void CudaBackend::carry_out(std::size_t instruction) {
  const Work& work = current_->works[instruction];
  const auto& what = current_->prepared.instructions[instruction].what;
  if (const auto* compute = std::get_if<PreparedCompute>(&what)) {
    work.kernel(compute->operands[parity_], compute->workspace[parity_], work.stream);
  } else if (const auto* mark = std::get_if<PreparedRecord>(&what)) {
    device_.record(events_[mark->event].get(), work.stream);
  } else if (const auto* hold = std::get_if<PreparedWait>(&what)) {
    device_.wait(work.stream, events_[hold->event].get());
  } else {
    for (const RowCopy& copy : work.copies[parity_]) device_.copy(copy, work.stream);
    for (const RowClear& clear : work.clears[parity_])
      device_.clear(clear.memory, clear.pitch, clear.row_bytes, clear.rows, work.stream);
  }
}

/// What comes behind the last instruction: the main stream behind all others, and the result.
void CudaBackend::close() {
  is_closed_ = true;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    device_.record(joins_[i].get(), streams_[i].get());
    device_.wait(main_.get(), joins_[i].get());
  }
  if (const std::byte* result = current_->prepared.blocks.result[parity_])
    device_.copy(dense(blocks_.get() + (2 + parity_) * block_room, result, sizeof(op::ResultBlock)),
                 main_.get());
}

void CudaBackend::finish() {
  if (idle_ && !fault_) return;
  if (!fault_ && !is_closed_) guard({}, [&] { close(); });
  const std::optional<std::size_t> alone = std::exchange(alone_, std::nullopt);
  if (!fault_) guard(alone, [&] { device_.synchronize(main_.get()); });
  if (!fault_ && !intervals_.empty()) guard({}, [&] { current_->times->read(intervals_); });
  if (fault_) drain_after_fault();
  issued_ = 0;
  if (!std::exchange(idle_, true) && options_.world != nullptr) {
    options_.world->progress().end(0, {program_, 0});
    options_.world->progress().end_program();
  }
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
}

op::ResultBlock CudaBackend::result() {
  op::ResultBlock result;
  if (current_->prepared.blocks.result[parity_] != nullptr)
    std::memcpy(&result, blocks_.get() + (2 + parity_) * block_room, sizeof result);
  return result;
}

// --- faults

template <class What>
void CudaBackend::guard(std::optional<std::size_t> instruction, const What& what) {
  if (fault_) return;
  try {
    what();
  } catch (const std::exception& exception) {
    fail(instruction, exception);
  }
}

void CudaBackend::fail(std::optional<std::size_t> instruction, const std::exception& exception) {
  const program::Program& program = *current_->prepared.program;
  keep(comm::fault_of(exception), instruction ? describe_instruction(program, *instruction)
                                              : format("program {}, step {}", program.name, step_));
}

/// The first one wins: what comes behind a fault of a device misleads.
void CudaBackend::keep(const comm::Fault& fault, const std::string& where) {
  if (fault_) return;
  const std::string text =
      format("{} on {}: {}: {}", describe_rank(*programs_[0]->prepared.program), device_.name(),
             where, fault.message);
  fault_ = fault.code == ExitCode::internal ? std::make_exception_ptr(InternalError(text))
                                            : std::make_exception_ptr(UserError(fault.code, text));
}

/// What was enqueued before the fault may still run. Errors of a lost device say nothing new.
void CudaBackend::drain_after_fault() {
  for (std::size_t i = 0; i <= streams_.size(); ++i) try {
      device_.synchronize(i < streams_.size() ? streams_[i].get() : main_.get());
    } catch (const std::exception&) {
    }
}

// --- between programs

std::unique_ptr<std::byte[]> CudaBackend::copy_of(std::span<const std::byte> memory) {
  auto copy = std::make_unique_for_overwrite<std::byte[]>(memory.size());
  staging_->read(memory.data(), {copy.get(), memory.size()}, main_.get());
  return copy;
}

HostView<std::byte> CudaBackend::bytes(const program::Buffer& buffer, std::int64_t parity) {
  const std::span<std::byte> memory = regions_.bytes(buffer, parity);
  return {copy_of(memory), memory.size(), [this, memory](std::span<const std::byte> changed) {
            try {
              if (!fault_) staging_->write(changed, memory.data(), main_.get());
            } catch (const std::exception& exception) {
              keep(comm::fault_of(exception), "writing between programs");
            }
          }};
}

HostView<const std::byte> CudaBackend::read(const program::Buffer& buffer, std::int64_t parity) {
  const std::span<std::byte> memory = regions_.bytes(buffer, parity);
  return {copy_of(memory), memory.size()};
}

}  // namespace fourfold::run::cuda
