#include "run/cpu.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::run {

CpuBackend::CpuBackend(CpuOptions options) : options_(options) {}

CpuBackend::~CpuBackend() {
  if (!idle_) fail(nullptr);  // nobody will issue the record that a worker may be waiting for
}

void CpuBackend::bind(const program::Bundle& bundle) {
  require(current_ == nullptr && programs_.empty(), "a backend is bound once");
  arena_ = Arena(bundle.persistent_bytes, bundle.transient_bytes);
  for (const program::Program& program : bundle.programs) {
    programs_.push_back(prepare_program(program, arena_));
    num_events_ = std::max(num_events_, program.num_events);
  }
  events_ = std::make_unique<std::atomic<std::uint32_t>[]>(num_events_);
  start_workers();
  prepare_kernels();
  if (options_.fresh == CpuOptions::Fresh::paint) arena_.paint();
}

/// One worker for each stream, known by its name, that has instructions in any program.
void CpuBackend::start_workers() {
  std::vector<std::size_t> longest;
  for (PreparedProgram& prepared : programs_) {
    std::vector<std::size_t> count(stream_names_.size(), 0);
    for (std::size_t i = 0; i < prepared.instructions.size(); ++i) {
      const program::StreamId stream = prepared.program->instructions[i].stream;
      const std::string& name = prepared.program->streams[stream.index()];
      const auto place = std::find(stream_names_.begin(), stream_names_.end(), name);
      const auto worker = static_cast<std::size_t>(place - stream_names_.begin());
      if (place == stream_names_.end()) {
        stream_names_.push_back(name);
        count.push_back(0);
        longest.push_back(0);
      }
      prepared.instructions[i].worker = worker;
      longest[worker] = std::max(longest[worker], ++count[worker]);
    }
  }
  for (std::size_t i = 0; i < stream_names_.size(); ++i)
    workers_.push_back(std::make_unique<StreamWorker>(
        stream_names_[i], longest[i], [this](std::uint32_t instruction) { execute(instruction); }));
}

/// On the thread that will call them: libraries keep settings and teams of threads by calling
/// thread.
void CpuBackend::prepare_kernels() {
  for (std::size_t worker = 0; worker < workers_.size(); ++worker)
    workers_[worker]->call([&] {
      for (PreparedProgram& prepared : programs_)
        for (std::size_t i = 0; i < prepared.instructions.size(); ++i) {
          auto* compute = std::get_if<PreparedCompute>(&prepared.instructions[i].what);
          if (compute == nullptr || prepared.instructions[i].worker != worker) continue;
          const auto& what = std::get<program::Compute>(prepared.program->instructions[i].what);
          compute->run = kernels::cpu::prepare(
              what.implementation,
              {what.op, what.dtype, prepared.program->operand_shapes(what), options_.threads});
        }
    });
}

void CpuBackend::begin(ProgramId program, std::int64_t parity, std::int64_t step, Feeder* feeder) {
  require(idle_, "a program begins when the one before has finished");
  current_ = &programs_[program.index()];
  parity_ = static_cast<std::size_t>(parity);
  step_ = step;
  feeder_ = feeder;
  ++run_number_;
}

void CpuBackend::issue(ProgramId program, std::size_t instruction) {
  const PreparedProgram& prepared = programs_[program.index()];
  idle_ = false;
  workers_[prepared.instructions[instruction].worker]->push(
      static_cast<std::uint32_t>(instruction));
}

void CpuBackend::finish() {
  for (const auto& worker : workers_) worker->drain();
  idle_ = true;
  if (!faulted_.exchange(false)) return;
  std::rethrow_exception(std::exchange(fault_, nullptr));
}

std::span<std::byte> CpuBackend::bytes(const program::Buffer& buffer, std::int64_t parity) {
  return arena_.bytes(buffer, parity);
}

void CpuBackend::execute(std::size_t instruction) {
  if (faulted_.load(std::memory_order_acquire)) return;
  try {
    carry_out(current_->instructions[instruction]);
  } catch (const std::exception&) {
    fail(std::current_exception());
  }
}

void CpuBackend::carry_out(const PreparedInstruction& instruction) {
  if (const auto* compute = std::get_if<PreparedCompute>(&instruction.what)) {
    compute->run(compute->operands[parity_], compute->workspace[parity_]);
  } else if (const auto* copy = std::get_if<PreparedCopy>(&instruction.what)) {
    copy_rows(copy->from[parity_], copy->to[parity_]);
  } else if (const auto* feed = std::get_if<PreparedFeed>(&instruction.what)) {
    require(feeder_ != nullptr, "a program with feeds is given a feeder");
    feeder_->feed(feed->kind, current_->program->feeds, step_, feed->micro, feed->ids[parity_]);
  } else if (const auto* mark = std::get_if<PreparedRecord>(&instruction.what)) {
    record(mark->event);
  } else if (const auto* hold = std::get_if<PreparedWait>(&instruction.what)) {
    wait(hold->event);
  }
  if (instruction.poison)
    write_nan(instruction.poison->element[parity_], instruction.poison->dtype);
}

void CpuBackend::record(std::size_t event) {
  events_[event].store(run_number_, std::memory_order_release);
  events_[event].notify_all();
}

void CpuBackend::wait(std::size_t event) {
  for (;;) {
    const std::uint32_t recorded = events_[event].load(std::memory_order_acquire);
    if (recorded == run_number_) return;
    events_[event].wait(recorded, std::memory_order_acquire);
  }
}

void CpuBackend::fail(std::exception_ptr fault) {
  if (!faulted_.exchange(true)) fault_ = std::move(fault);
  for (std::size_t event = 0; event < num_events_; ++event) record(event);
}

void CpuBackend::inject(const Fault& fault) {
  for (PreparedProgram& prepared : programs_) {
    if (prepared.program->name != fault.program) continue;
    PreparedInstruction& target = prepared.instructions.at(fault.instruction);
    const auto* compute = std::get_if<PreparedCompute>(&target.what);
    require(compute != nullptr, "a fault is injected into the output of a compute instruction");
    const op::Operands operands = op::operands(
        std::get<program::Compute>(prepared.program->instructions[fault.instruction].what).op);
    const auto is_read = [](const op::Operand& operand) { return operand.role == op::Role::read; };
    const auto reads = static_cast<std::size_t>(std::ranges::count_if(operands, is_read));
    const std::size_t operand = reads + fault.output;
    require(operand < operands.size(), "the instruction has such an output");
    Poison poison{{}, compute->operands[0][operand].dtype};
    for (const std::size_t parity : {0U, 1U})
      poison.element[parity] = compute->operands[parity][operand].as<std::byte>() +
                               fault.element * size_bytes(poison.dtype);
    target.poison = poison;
    return;
  }
  fail_internal(format("the bundle has a program named {}", fault.program));
}

}  // namespace fourfold::run
