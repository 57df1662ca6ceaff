#include "run/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/overloaded.h"
#include "program/text.h"
#include "run/describe.h"

namespace fourfold::run::cuda {
namespace {

/// What cudaMalloc gives at least, and more than any vector access needs.
constexpr std::int64_t region_alignment = 256;
std::int64_t aligned(std::int64_t bytes) {
  return (bytes + region_alignment - 1) / region_alignment * region_alignment;
}

/// Kernels that wait for their stream cannot be captured.
bool waits_on_host(const program::Instruction& instruction) {
  const auto* compute = std::get_if<program::Compute>(&instruction.what);
  return compute != nullptr && (std::holds_alternative<op::InitNormal>(compute->op) ||
                                std::holds_alternative<op::InitUniform>(compute->op));
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
  const std::vector<Shape> scalars(op::operands(op::Vote{}).size());
  blocks_ = std::make_unique<PinnedBlocks>(
      device_, options_.prepare("own", {op::Vote{}, DType::f32, scalars, 1}));
  main_ = make_stream(device_);
  fork_ = make_event(device_, Device::Timing::off);
  first_ended_ = make_event(device_, Device::Timing::off);
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
  Work work;
  work.stream = stream_of(program.streams[said.stream.index()]);
  work.name = program::short_text(program, said);
  if (const auto* compute = std::get_if<program::Compute>(&said.what))
    work.kernel = options_.prepare(compute->implementation, {compute->op, compute->dtype,
                                                             program.operand_shapes(*compute), 1});
  for (const std::size_t parity : {0U, 1U})
    if (std::holds_alternative<program::Feed>(said.what))
      work.moves[parity] = [this, copy = loaded.feeds->copy_of(instruction, parity)](
                               Stream stream) { device_.copy(copy, stream); };
    else
      work.moves[parity] = move_of(loaded.prepared.instructions[instruction], parity);
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
  if (!idle_) begin_ahead(program, step);
  run_ = {.loaded = programs_[program.index()].get(),
          .program = program.index(),
          .parity = parity_of(step),
          .step = step.step,
          .feeder = feeder,
          .intervals = intervals_,
          .fault = std::exchange(fault_between_, nullptr)};
  blocks_->write(run_.parity, step);
  if (options_.world != nullptr && !first_) options_.world->progress().set_step(run_.step);
}

/// The run that began last becomes the first of two.
void CudaBackend::begin_ahead(ProgramId program, const op::StepBlock& step) {
  require(!first_ && run_.is_whole && run_.intervals.empty() && intervals_.empty() &&
              program.index() == run_.program && step.step == run_.step + 1,
          "a program begins when the one before has finished, or is its next step");
  first_ = std::exchange(run_, {});
  guard(*first_, {}, [&] { device_.record(first_ended_.get(), main_.get()); });
}

/// What comes before anything is enqueued, once between two calls of finish.
void CudaBackend::leave_idle() {
  if (std::exchange(idle_, false)) tell_begin();
  fill_feeds();
}

void CudaBackend::issue(ProgramId program, std::size_t instruction) {
  require(program.index() == run_.program && !first_,
          "instructions are those of the program that began");
  leave_idle();
  if (!run_.is_open) guard(run_, {}, [&] { open(); });
  run_.is_closed = false;
  alone_ = ++issued_ == 1 ? std::optional(instruction) : std::nullopt;
  enqueue(instruction);
}

void CudaBackend::issue_all(ProgramId program, std::size_t count) {
  require(program.index() == run_.program && count == run_.loaded->works.size(),
          "instructions are those of the program that began");
  leave_idle();
  if (first_)
    guard(run_, {}, [&] { blocks_->vote_behind(first_->parity, run_.parity, main_.get()); });
  Loaded& loaded = *run_.loaded;
  if (loaded.has_run && !loaded.waits_on_host && run_.intervals.empty())
    guard(run_, {}, [&] { launch_graph(); });
  else
    enqueue_plainly();
  run_.is_whole = true;
  if (is_faulty(run_)) return;
  loaded.has_run = true;
  // The feeds of the step that follows are those of the first of two, until that one has finished.
  if (!first_) fill_feeds_ahead();
}

void CudaBackend::fill_feeds() {
  if (is_faulty(run_) || std::exchange(run_.is_fed, true)) return;
  const std::int64_t begin_ns = trace::now_ns();
  run_.loaded->feeds->fill(run_.step, run_.feeder,
                           [&](std::size_t instruction, const std::exception& exception) {
                             fail(run_, instruction, exception);
                           });
  // The device works meanwhile where a step begins ahead.
  if (!first_) run_.math_waits.feed_ns += trace::now_ns() - begin_ns;
}

void CudaBackend::fill_feeds_ahead() {
  if (run_.feeder != nullptr && run_.feeder->feeds_ahead())
    run_.loaded->feeds->fill_ahead(run_.step + 1, *run_.feeder);
}

void CudaBackend::enqueue_plainly() {
  guard(run_, {}, [&] { open(); });
  for (std::size_t i = 0; i < run_.loaded->works.size(); ++i) enqueue(i);
  guard(run_, {}, [&] { close(); });
}

void CudaBackend::launch_graph() {
  OwnedGraph& graph = run_.loaded->graphs[run_.parity];
  if (graph == nullptr) graph = capture();
  device_.launch(graph.get(), main_.get());
  run_.is_closed = true;
}

OwnedGraph CudaBackend::capture() {
  device_.begin_capture(main_.get());
  try {
    open();
    for (std::size_t i = 0; i < run_.loaded->works.size(); ++i) carry_out(i);
    close();
    return OwnedGraph(device_.end_capture(main_.get()), {&device_});
  } catch (const std::exception&) {
    device_.abandon_capture(main_.get());
    throw;
  }
}

/// What comes before the first instruction: blocks, and all streams after the main one.
void CudaBackend::open() {
  run_.is_open = true;
  Loaded& loaded = *run_.loaded;
  const PreparedBlocks& blocks = loaded.prepared.blocks;
  if (std::byte* step = blocks.step[run_.parity])
    device_.copy(blocks_->step_to(step, run_.parity), main_.get());
  if (std::byte* result = blocks.result[run_.parity])
    device_.clear(result, sizeof(op::ResultBlock), sizeof(op::ResultBlock), 1, main_.get());
  if (!run_.intervals.empty()) {
    if (loaded.times == nullptr)
      loaded.times = std::make_unique<InstructionTimes>(device_, loaded.works.size());
    loaded.times->begin(main_.get());
  }
  device_.record(fork_.get(), main_.get());
  for (const OwnedStream& stream : streams_) device_.wait(stream.get(), fork_.get());
}

void CudaBackend::enqueue(std::size_t instruction) {
  guard(run_, instruction, [&] {
    const Work& work = run_.loaded->works[instruction];
    InstructionTimes* times = run_.intervals.empty() ? nullptr : run_.loaded->times.get();
    device_.push_range(work.name.c_str());
    if (times != nullptr) times->before(instruction, work.stream);
    carry_out(instruction);
    if (times != nullptr) times->behind(instruction, work.stream);
    device_.pop_range();
  });
}

void CudaBackend::carry_out(std::size_t instruction) {
  const std::size_t parity = run_.parity;
  const Work& work = run_.loaded->works[instruction];
  std::visit(
      Overloaded{
          [](const PreparedNothing&) {},
          [&](const PreparedCompute& compute) {
            work.kernel(compute.operands[parity], compute.workspace[parity], work.stream);
          },
          [&](const PreparedRecord& mark) {
            device_.record(events_[mark.event].get(), work.stream);
          },
          [&](const PreparedWait& hold) { device_.wait(work.stream, events_[hold.event].get()); },
          // All others move something, or have not been loaded (move_of).
          [&](const auto&) { work.moves[parity](work.stream); }},
      run_.loaded->prepared.instructions[instruction].what);
}

/// What comes after the last instruction: the main stream after all others, and the result.
void CudaBackend::close() {
  run_.is_closed = true;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    device_.record(joins_[i].get(), streams_[i].get());
    device_.wait(main_.get(), joins_[i].get());
  }
  if (const std::byte* result = run_.loaded->prepared.blocks.result[run_.parity])
    device_.copy(blocks_->result_from(result, run_.parity), main_.get());
}

void CudaBackend::finish() {
  if (first_) return finish_first();
  if (fault_between_) std::rethrow_exception(std::exchange(fault_between_, nullptr));
  if (!idle_) finish_all();
}

/// The second of two runs goes on, unless the first one failed.
void CudaBackend::finish_first() {
  guard(*first_, {}, [&] { device_.synchronize(first_ended_.get()); });
  if (first_->fault) {
    run_ = std::move(*first_);
    first_.reset();
    return finish_all();
  }
  tell_end();
  done_ = std::move(*first_);
  first_.reset();
  tell_begin();
  if (options_.world != nullptr) options_.world->progress().set_step(run_.step);
  if (!run_.fault) fill_feeds_ahead();
}

void CudaBackend::finish_all() {
  if (!run_.is_closed) guard(run_, {}, [&] { close(); });
  const std::optional<std::size_t> alone = std::exchange(alone_, std::nullopt);
  guard(run_, alone, [&] { device_.synchronize(main_.get()); });
  if (!run_.intervals.empty()) guard(run_, {}, [&] { run_.loaded->times->read(run_.intervals); });
  const std::exception_ptr fault = std::exchange(run_.fault, nullptr);
  if (fault) drain_after_fault();
  issued_ = 0;
  idle_ = true;
  tell_end();
  done_ = run_;
  if (fault) std::rethrow_exception(fault);
}

op::ResultBlock CudaBackend::result() {
  const bool has_any = done_.loaded->prepared.blocks.result[done_.parity] != nullptr;
  return has_any ? blocks_->result(done_.parity) : op::ResultBlock{};
}

void CudaBackend::tell_begin() {
  if (options_.world == nullptr) return;
  options_.world->progress().begin_program();
  options_.world->progress().begin(0, {run_.program, 0});
}

void CudaBackend::tell_end() {
  if (options_.world == nullptr) return;
  options_.world->progress().end(0, {run_.program, 0});
  options_.world->progress().end_program();
}

// --- faults

/// Nothing more is done for it: after a fault of the first of two runs none for the second.
bool CudaBackend::is_faulty(const Run& run) const {
  return run.fault != nullptr || (first_ && first_->fault != nullptr);
}

template <class What>
void CudaBackend::guard(Run& run, std::optional<std::size_t> instruction, const What& what) {
  if (is_faulty(run)) return;
  try {
    what();
  } catch (const std::exception& exception) {
    fail(run, instruction, exception);
  }
}

/// The first one wins: what comes after a fault of a device misleads.
void CudaBackend::fail(Run& run, std::optional<std::size_t> instruction,
                       const std::exception& exception) {
  if (run.fault) return;
  const program::Program& program = *run.loaded->prepared.program;
  run.fault = fault_at(instruction ? describe_instruction(program, *instruction)
                                   : format("program {}, step {}", program.name, run.step),
                       exception);
}

std::exception_ptr CudaBackend::fault_at(const std::string& where,
                                         const std::exception& exception) const {
  const comm::Fault fault = comm::fault_of(exception);
  const std::string text =
      format("{} on {}: {}: {}", describe_rank(*programs_[0]->prepared.program), device_.name(),
             where, fault.message);
  return fault.code == ExitCode::internal ? std::make_exception_ptr(InternalError(text))
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
  require(idle_, "the host sees buffers between programs");
  auto copy = std::make_unique_for_overwrite<std::byte[]>(memory.size());
  staging_->read(memory.data(), {copy.get(), memory.size()}, main_.get());
  return copy;
}

HostView<std::byte> CudaBackend::bytes(const program::Buffer& buffer, std::int64_t parity) {
  const std::span<std::byte> memory = regions_.bytes(buffer, parity);
  return {copy_of(memory), memory.size(), [this, memory](std::span<const std::byte> changed) {
            try {
              if (!fault_between_) staging_->write(changed, memory.data(), main_.get());
            } catch (const std::exception& exception) {
              fault_between_ = fault_at("writing between programs", exception);
            }
          }};
}

HostView<const std::byte> CudaBackend::read(const program::Buffer& buffer, std::int64_t parity) {
  const std::span<std::byte> memory = regions_.bytes(buffer, parity);
  return {copy_of(memory), memory.size()};
}

}  // namespace fourfold::run::cuda
