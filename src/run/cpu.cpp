#include "run/cpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "kernels/cpu/parallel.h"
#include "run/assign_workers.h"
#include "run/describe.h"
#include "run/program_groups.h"

namespace fourfold::run {
CpuBackend::CpuBackend(CpuOptions options) : options_(options), events_(options.first_count) {}

CpuBackend::~CpuBackend() {
  // Nobody will issue the record, or join the collective, that a worker may be waiting for.
  if (!idle_) fail(nullptr);
  if (!idle_ && options_.world != nullptr && options_.world->size() > 1)
    options_.world->abort_all(ExitCode::internal, format("{} left a program before its end",
                                                         describe_rank(*current_->program)));
  if (options_.world != nullptr) options_.world->progress().clear_workers();
}

void CpuBackend::bind(const program::Bundle& bundle) {
  require(current_ == nullptr && programs_.empty(), "a backend is bound once");
  arena_ = Arena(bundle.persistent_bytes, bundle.transient_bytes);
  comm::World* const world = options_.world;
  if (world != nullptr) world->create_groups(groups_of(bundle));
  std::size_t num_events = 0;
  for (const program::Program& program : bundle.programs) {
    require(world == nullptr || (program.rank == world->rank() &&
                                 program.world == static_cast<std::int64_t>(world->size())),
            "a rank runs the programs that were compiled for it");
    programs_.push_back(
        prepare_program(program, arena_.regions(), {.world = world}, options_.threads));
    give_room(programs_.back());
    num_events = std::max(num_events, program.num_events);
  }
  events_.resize(num_events);
  start_workers();
  prepare_kernels();
  show_progress();
  if (options_.fresh == CpuOptions::Fresh::paint) arena_.paint();
}

/// For messages of several rows.
void CpuBackend::give_room(PreparedProgram& prepared) {
  const std::size_t first = message_rooms_.size();
  for (const std::size_t bytes : room_for_messages(prepared)) message_rooms_.emplace_back(bytes);
  for (std::size_t i = 0; i < prepared.instructions.size(); ++i)
    if (auto* message = std::get_if<PreparedMessage>(&prepared.instructions[i].what)) {
      const std::size_t stream = prepared.program->instructions[i].stream.index();
      message->dense = std::span(message_rooms_[first + stream]).first(message->dense_bytes());
    }
}

void CpuBackend::start_workers() {
  std::vector<PreparedProgram*> programs;
  for (PreparedProgram& prepared : programs_) programs.push_back(&prepared);
  for (const WorkerPlan& worker : assign_workers(programs, options_.world)) {
    stream_names_.push_back(worker.name);
    workers_.push_back(std::make_unique<StreamWorker>(
        worker.name, worker.longest, [this](std::uint32_t instruction) { execute(instruction); },
        options_.first_count));
  }
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
          // Beside the collectives of its stream a kernel has the one thread that serves them.
          const int threads = stream_names_[worker] == math_stream ? options_.threads : 1;
          compute->run = kernels::cpu::prepare(
              what.implementation,
              {what.op, what.dtype, prepared.program->operand_shapes(what), threads});
        }
    });
}

/// Tells whoever watches this rank which stream each numbered worker serves.
void CpuBackend::show_progress() {
  if (options_.world == nullptr) return;
  options_.world->progress().set_workers(stream_names_, [this](comm::Place place) {
    const program::Program& program = *programs_[place.program].program;
    comm::Progress::Description description = describe_place(program, place.instruction);
    if (std::holds_alternative<program::Feed>(program.instructions[place.instruction].what))
      description.text = format("waits for data, {}: {}", options_.data_name, description.text);
    return description;
  });
}

void CpuBackend::begin(ProgramId program, const op::StepBlock& step, Feeder* feeder) {
  require(idle_, "a program begins when the one before has finished");
  kernels::cpu::end_team();  // of a caller that measured kernels, say: the workers have their own
  current_ = &programs_[program.index()];
  program_ = program.index();
  parity_ = parity_of(step);
  step_ = step.step;
  feeder_ = feeder;
  math_waits_ = {};
  events_.begin_run();
  if (options_.world != nullptr) options_.world->progress().set_step(step_);
  if (std::byte* block = current_->blocks.step[parity_]) std::memcpy(block, &step, sizeof step);
  if (std::byte* block = current_->blocks.result[parity_])
    std::memset(block, 0, sizeof(op::ResultBlock));
}

op::ResultBlock CpuBackend::result() {
  op::ResultBlock result;
  if (const std::byte* block = current_->blocks.result[parity_])
    std::memcpy(&result, block, sizeof result);
  return result;
}

void CpuBackend::issue(ProgramId program, std::size_t instruction) {
  const PreparedProgram& prepared = programs_[program.index()];
  if (idle_ && options_.world != nullptr) options_.world->progress().begin_program();
  idle_ = false;
  workers_[prepared.instructions[instruction].worker]->push(
      static_cast<std::uint32_t>(instruction));
}

void CpuBackend::finish() {
  for (const auto& worker : workers_) worker->drain();
  if (!idle_ && options_.world != nullptr) options_.world->progress().end_program();
  idle_ = true;
  if (std::int64_t end_ns = std::exchange(math_end_ns_, 0); end_ns != 0)
    math_waits_.communication_ns += trace::now_ns() - end_ns;
  if (!faulted_.exchange(false)) return;
  std::rethrow_exception(std::exchange(fault_, nullptr));
}

void CpuBackend::trace_next(std::span<trace::Interval> intervals) {
  intervals_ = intervals;
}

bool CpuBackend::watch(Watch watch) {
  require(idle_, "who watches a program comes before it begins");
  watch_ = std::move(watch);
  return true;
}

HostView<std::byte> CpuBackend::bytes(const program::Buffer& buffer, std::int64_t parity) {
  return arena_.bytes(buffer, parity);
}

void CpuBackend::execute(std::size_t instruction) {
  if (faulted_.load(std::memory_order_acquire)) return;
  const PreparedInstruction& what = current_->instructions[instruction];
  comm::Progress* const progress =
      options_.world != nullptr ? &options_.world->progress() : nullptr;
  const comm::Place place{program_, instruction};
  if (progress != nullptr) progress->begin(what.worker, place);
  if (!intervals_.empty()) intervals_[instruction].begin_ns = trace::now_ns();
  try {
    carry_out_one(what);
    if (watch_) watch_(instruction);
  } catch (const comm::Aborted&) {
    fail(std::current_exception());
  } catch (const std::exception& exception) {
    end_job(instruction, exception);
    fail(std::current_exception());
  }
  if (!intervals_.empty()) intervals_[instruction].end_ns = trace::now_ns();
  if (instruction == current_->last_math) math_end_ns_ = trace::now_ns();
  if (progress != nullptr) progress->end(what.worker, place);
}

/// The other ranks wait for what this one will not send.
void CpuBackend::end_job(std::size_t instruction, const std::exception& exception) {
  if (options_.world == nullptr || options_.world->size() == 1) return;
  const comm::Fault fault = comm::fault_of(exception);
  options_.world->abort_all(
      fault.code, format("{}: {}: {}", describe_rank(*current_->program),
                         describe_instruction(*current_->program, instruction), fault.message));
}

void CpuBackend::carry_out_one(const PreparedInstruction& instruction) {
  std::visit([this](const auto& what) { carry_out(what); }, instruction.what);
  if (instruction.poison)
    write_nan(instruction.poison->element[parity_], instruction.poison->dtype);
}

void CpuBackend::carry_out(const PreparedCompute& compute) const {
  compute.run(compute.operands[parity_], compute.workspace[parity_]);
}

void CpuBackend::carry_out(const PreparedCollective& collective) const {
  run::carry_out(collective, parity_);
}

void CpuBackend::carry_out(const PreparedMessage& message) const {
  run::carry_out(message, *options_.world, parity_);
}

void CpuBackend::carry_out(const PreparedReorder& reorder) const {
  if (reorder.packs)
    pack(reorder.order, reorder.plain[parity_], reorder.blocked[parity_], reorder.threads);
  else
    unpack(reorder.order, reorder.blocked[parity_], reorder.plain[parity_], reorder.threads);
}

void CpuBackend::carry_out(const PreparedCopy& copy) const {
  for (const PreparedCopy::Tensor& tensor : copy.tensors)
    copy_rows(tensor.from[parity_], tensor.to[parity_]);
}

void CpuBackend::carry_out(const PreparedFeed& feed) const {
  require(feeder_ != nullptr, "a program with feeds is given a feeder");
  feeder_->feed(*feed.input, {step_, feed.first, feed.count}, feed.into[parity_]);
}

void CpuBackend::wait(const PreparedWait& wait) {
  if (events_.is_recorded(wait.event)) return;
  const std::int64_t begin_ns = trace::now_ns();
  events_.wait(wait.event);
  switch (wait.timed) {
    case PreparedWait::Timed::communication:
      math_waits_.communication_ns += trace::now_ns() - begin_ns;
      break;
    case PreparedWait::Timed::feed:
      math_waits_.feed_ns += trace::now_ns() - begin_ns;
      break;
    case PreparedWait::Timed::no:
      break;
  }
}

void CpuBackend::fail(std::exception_ptr fault) {
  if (!faulted_.exchange(true)) fault_ = std::move(fault);
  events_.record_all();
}

void CpuBackend::inject(const Fault& fault) {
  for (PreparedProgram& prepared : programs_) {
    if (prepared.program->kind != fault.program) continue;
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
  fail_internal(format("the bundle has a program named {}", op::to_string(fault.program)));
}

}  // namespace fourfold::run
