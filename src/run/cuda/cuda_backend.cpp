#include "run/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/overloaded.h"
#include "run/describe.h"

namespace fourfold::run::cuda {
CudaBackend::CudaBackend(Device& device, CudaOptions options)
    : device_(device), options_(std::move(options)) {}

CudaBackend::~CudaBackend() {
  // Nobody will issue the record, or join the collective, that a thread may be waiting for.
  if (!idle_ && options_.device_world != nullptr)
    options_.world->abort_all(
        ExitCode::internal,
        format("{} left a program before its end", describe_rank(*run_.loaded->prepared.program)));
  threads_.reset();
  if (options_.world != nullptr) options_.world->progress().clear_workers();
  // Nothing may run in memory that is about to go.
  if (!idle_) leave_device();
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
  if (threads_) threads_->begin_run();
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
  if (threads_ == nullptr) return enqueue(instruction);
  if (!is_faulty(run_))
    threads_->push(run_.loaded->prepared.instructions[instruction].worker, instruction);
}

void CudaBackend::issue_all(ProgramId program, std::size_t count) {
  require(program.index() == run_.program && count == run_.loaded->works.size(),
          "instructions are those of the program that began");
  leave_idle();
  if (first_)
    guard(run_, {}, [&] { blocks_->vote_behind(first_->parity, run_.parity, main_.get()); });
  Loaded& loaded = *run_.loaded;
  if (threads_)
    push_all();
  else if (loaded.has_run && !loaded.waits_on_host && run_.intervals.empty())
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

/// What comes after the last instruction waits until the threads are done (finish_all).
void CudaBackend::push_all() {
  guard(run_, {}, [&] { open(); });
  if (is_faulty(run_)) return;
  const auto& instructions = run_.loaded->prepared.instructions;
  for (std::size_t i = 0; i < instructions.size(); ++i) threads_->push(instructions[i].worker, i);
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
  if (std::byte* result = blocks.result[run_.parity]) clear_result(result);
  if (!run_.intervals.empty()) {
    if (loaded.times == nullptr)
      loaded.times = std::make_unique<InstructionTimes>(device_, loaded.works.size());
    loaded.times->begin(main_.get());
  }
  if (marks_) marks_->begin(main_.get());
  device_.record(fork_.get(), main_.get());
  for (const OwnedStream& stream : streams_) device_.wait(stream.get(), fork_.get());
}

void CudaBackend::clear_result(std::byte* block) {
  device_.clear(block, sizeof(op::ResultBlock), sizeof(op::ResultBlock), 1, main_.get());
}

void CudaBackend::enqueue(std::size_t instruction) {
  guard(run_, instruction, [&] { enqueue_named(instruction); });
}

void CudaBackend::enqueue_named(std::size_t instruction) {
  const Work& work = run_.loaded->works[instruction];
  InstructionTimes* times = run_.intervals.empty() ? nullptr : run_.loaded->times.get();
  device_.push_range(work.name.c_str());
  if (times != nullptr) times->before(instruction, work.stream);
  carry_out(instruction);
  if (times != nullptr) times->behind(instruction, work.stream);
  device_.pop_range();
}

void CudaBackend::issue_on_thread(std::size_t thread, std::size_t instruction) {
  comm::Progress& progress = options_.world->progress();
  const comm::Place place{run_.program, instruction};
  progress.begin(thread, place);
  enqueue_named(instruction);
  if (watch_) show(instruction);
  progress.end(thread, place);
}

/// The stream's thread waits for the device, and all other threads go on. One after another, as
/// they share what brings bytes to the host: the main stream, which waits for nothing until the
/// program is closed.
void CudaBackend::show(std::size_t instruction) {
  device_.synchronize(run_.loaded->works[instruction].stream);
  const std::lock_guard lock(watching_);
  is_shown_ = true;
  watch_(instruction);
  is_shown_ = false;
}

/// Where ranks do not meet on the host, the device has its work from one thread.
bool CudaBackend::watch(Watch watch) {
  require(idle_, "who watches a program comes before it begins");
  if (threads_ == nullptr) return false;
  watch_ = std::move(watch);
  return true;
}

void CudaBackend::carry_out(std::size_t instruction) {
  const std::size_t parity = run_.parity;
  const Work& work = run_.loaded->works[instruction];
  std::visit(Overloaded{[](const PreparedNothing&) {},
                        [&](const PreparedCompute& compute) {
                          work.kernel(compute.operands[parity], compute.workspace[parity],
                                      work.stream);
                        },
                        [&](const PreparedRecord& mark) {
                          device_.record(events_[mark.event].get(), work.stream);
                          if (threads_) threads_->recorded(mark.event);
                        },
                        [&](const PreparedWait& hold) {
                          if (threads_) threads_->wait_until_recorded(hold.event);
                          device_.wait(work.stream, events_[hold.event].get());
                        },
                        [&](const PreparedCollective& collective) {
                          collective.device_group->enqueue(collective.what[parity], work.stream);
                        },
                        [&](const PreparedMessage& message) { carry_out(message, work); },
                        // All others move something (move_of).
                        [&](const auto&) { work.moves[parity](work.stream); }},
             run_.loaded->prepared.instructions[instruction].what);
  if (work.marked) marks_->over(*work.marked, work.stream);
}

/// Several rows stand one after another on their way.
void CudaBackend::carry_out(const PreparedMessage& message, const Work& work) {
  const std::span<std::byte> whole = message.whole(run_.parity);
  const Move& move = work.moves[run_.parity];
  if (message.sends) {
    if (move) move(work.stream);
    options_.device_world->send(message.peer, message.tag, whole, work.stream);
  } else {
    options_.device_world->recv(message.peer, message.tag, whole, work.stream);
    if (move) move(work.stream);
  }
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
  guard(*first_, {}, [&] { wait_for(first_ended_.get()); });
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
  if (threads_) {
    if (const auto fault = threads_->drain(); fault && !run_.fault)
      run_.fault = fault_of_thread(*fault);
    tell_device_begin();
  }
  if (!run_.is_closed) guard(run_, {}, [&] { close(); });
  const std::optional<std::size_t> alone = std::exchange(alone_, std::nullopt);
  guard(run_, alone, [&] { wait_for(main_.get()); });
  if (!run_.intervals.empty()) guard(run_, {}, [&] { run_.loaded->times->read(run_.intervals); });
  const std::exception_ptr fault = std::exchange(run_.fault, nullptr);
  if (fault) leave_device();
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

template <class Awaited>
void CudaBackend::wait_for(Awaited awaited) {
  if (options_.device_world == nullptr || threads_) return device_.synchronize(awaited);
  // Between two looks; a step takes milliseconds.
  constexpr std::chrono::microseconds pause(50);
  while (!device_.is_done(awaited)) {
    options_.device_world->check();
    std::this_thread::sleep_for(pause);
  }
  options_.device_world->check();
}

void CudaBackend::tell_begin() {
  if (options_.world == nullptr) return;
  options_.world->progress().begin_program();
  // Threads tell themselves what they do before the device is waited for.
  if (threads_ == nullptr) tell_device_begin();
}

void CudaBackend::tell_device_begin() {
  if (options_.world == nullptr) return;
  options_.world->progress().begin(thread_names_.size(), {run_.program, run_.loaded->works.size()});
}

void CudaBackend::tell_end() {
  if (options_.world == nullptr) return;
  options_.world->progress().end(thread_names_.size(), {run_.program, run_.loaded->works.size()});
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
  run.fault = fault_at(instruction ? describe_instruction(program, *instruction) : place_in(run),
                       exception);
  end_job(run.fault);
}

std::string CudaBackend::place_in(const Run& run) const {
  const program::Program& program = *run.loaded->prepared.program;
  std::string text = format("program {}, step {}", op::to_string(program.kind), run.step);
  const auto open = marks_ ? marks_->first_open(run.loaded->exchanges) : std::nullopt;
  if (open)
    text +=
        format(", where {} is the first that is not over", describe_instruction(program, *open));
  return text;
}

std::exception_ptr CudaBackend::fault_at(const std::string& where,
                                         const std::exception& exception) const {
  if (dynamic_cast<const comm::Aborted*>(&exception) != nullptr)
    return std::make_exception_ptr(comm::Aborted());
  const comm::Fault fault = comm::fault_of(exception);
  const std::string text =
      format("{} on {}: {}: {}", describe_rank(*programs_[0]->prepared.program), device_.name(),
             where, fault.message);
  return fault.code == ExitCode::internal ? std::make_exception_ptr(InternalError(text))
                                          : std::make_exception_ptr(UserError(fault.code, text));
}

std::exception_ptr CudaBackend::fault_of_thread(const IssuingThreads::Fault& fault) const {
  try {
    std::rethrow_exception(fault.exception);
  } catch (const std::exception& exception) {
    return fault_at(describe_instruction(*run_.loaded->prepared.program, fault.instruction),
                    exception);
  }
}

/// The other ranks wait for what this one will not send. The first reason counts.
void CudaBackend::end_job(const std::exception_ptr& fault) const {
  if (options_.device_world == nullptr) return;
  try {
    std::rethrow_exception(fault);
  } catch (const comm::Aborted&) {
    // Another rank has told why.
  } catch (const std::exception& exception) {
    const comm::Fault told = comm::fault_of(exception);
    options_.world->abort_all(told.code, told.message);
  }
}

/// After a fault: what was enqueued before it may still run, or wait for a rank that is gone. To
/// give back memory would wait for it for ever.
void CudaBackend::leave_device() {
  if (options_.device_world != nullptr) {
    // Graphs go first: who ends their communicators waits until no graph has them.
    for (const auto& loaded : programs_)
      for (const std::size_t parity : {0U, 1U}) loaded->graphs[parity].reset();
    options_.device_world->abort();
  }
  drain();
}

/// Returns when the device is done. Errors of a lost device say nothing new.
void CudaBackend::drain() {
  // What has been ended ends at once; who waits for longer would wait for ever.
  constexpr std::chrono::seconds most(5);
  const bool may_hang = options_.device_world != nullptr && threads_ == nullptr;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i <= streams_.size(); ++i) try {
      const Stream stream = i < streams_.size() ? streams_[i].get() : main_.get();
      if (!may_hang) {
        device_.synchronize(stream);
        continue;
      }
      while (!device_.is_done(stream) && std::chrono::steady_clock::now() - begin < most)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } catch (const std::exception&) {
    }
}

// --- between programs

std::unique_ptr<std::byte[]> CudaBackend::copy_of(std::span<const std::byte> memory) {
  require(idle_ || is_shown_, "the host sees buffers between programs, or while it is shown one");
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
