#include "run/executor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::run {
namespace {

/// The program's buffer of a role that only one buffer has.
std::optional<program::BufferId> find_block(const program::Program& program,
                                            program::BufferRole role, std::size_t bytes) {
  const auto& buffers = program.buffers;
  const auto place = std::ranges::find(buffers, role, &program::Buffer::role);
  if (place == buffers.end()) return std::nullopt;
  require(place->size_bytes >= static_cast<std::int64_t>(bytes),
          format("{} has room for all fields of the {}", place->name, to_string(role)));
  return program::BufferId(static_cast<std::size_t>(place - buffers.begin()));
}

std::int64_t parity_of(const op::StepBlock& step) {
  return step.step & 1;
}

}  // namespace

Executor::Executor(const program::Bundle& bundle, Backend& backend)
    : bundle_(bundle), backend_(backend) {
  backend.bind(bundle);
  for (std::size_t i = 0; i < bundle.programs.size(); ++i) {
    const program::Program& program = bundle.programs[i];
    entries_.push_back(
        {&program, ProgramId(i),
         find_block(program, program::BufferRole::step_block, sizeof(op::StepBlock)),
         find_block(program, program::BufferRole::result_block, sizeof(op::ResultBlock))});
  }
}

op::ResultBlock Executor::run(std::string_view program, const op::StepBlock& step, Feeder* feeder) {
  const Entry& entry = find(program);
  backend_.trace_next(recorder_ != nullptr ? recorder_->begin_run(program, step.step)
                                           : std::span<trace::Interval>());
  begin(entry, step, feeder);
  for (std::size_t i = 0; i < entry.program->instructions.size(); ++i) backend_.issue(entry.id, i);
  backend_.finish();
  const op::ResultBlock result = end(entry, parity_of(step));
  if (recorder_ != nullptr) recorder_->end_run({begin_ns_, end_ns_});
  return result;
}

op::ResultBlock Executor::run_stepwise(std::string_view program, const op::StepBlock& step,
                                       Feeder* feeder, const After& after) {
  const Entry& entry = find(program);
  backend_.trace_next({});
  begin(entry, step, feeder);
  for (std::size_t i = 0; i < entry.program->instructions.size(); ++i) {
    backend_.issue(entry.id, i);
    backend_.finish();
    after(*entry.program, i);
  }
  return end(entry, parity_of(step));
}

std::span<std::byte> Executor::bytes(const program::Buffer& buffer, std::int64_t parity) {
  return backend_.bytes(buffer, parity);
}

std::span<std::byte> Executor::bytes(std::string_view program, std::string_view buffer,
                                     std::int64_t parity) {
  const program::Program& found = *find(program).program;
  const auto id = found.find_buffer(buffer);
  if (!id) fail_internal(format("program {} has a buffer named {}", program, buffer));
  return backend_.bytes(found.buffer(*id), parity);
}

const Executor::Entry& Executor::find(std::string_view program) const {
  const auto has_name = [&](const Entry& entry) { return entry.program->name == program; };
  const auto place = std::ranges::find_if(entries_, has_name);
  if (place == entries_.end()) fail_internal(format("the bundle has a program named {}", program));
  return *place;
}

/// Writes the step block and clears the result block, so that a field no instruction writes reads
/// as zero.
void Executor::begin(const Entry& entry, const op::StepBlock& step, Feeder* feeder) {
  const std::int64_t parity = parity_of(step);
  begin_ns_ = trace::now_ns();
  backend_.begin(entry.id, parity, step.step, feeder);
  if (entry.step_block) {
    const auto bytes = backend_.bytes(entry.program->buffer(*entry.step_block), parity);
    std::memcpy(bytes.data(), &step, sizeof step);
  }
  if (entry.result_block) {
    const auto bytes = backend_.bytes(entry.program->buffer(*entry.result_block), parity);
    std::memset(bytes.data(), 0, sizeof(op::ResultBlock));
  }
}

op::ResultBlock Executor::end(const Entry& entry, std::int64_t parity) {
  constexpr double ns = 1e-9;
  end_ns_ = trace::now_ns();
  const MathWaits waits = backend_.math_waits();
  times_ = {.total_s = ns * static_cast<double>(end_ns_ - begin_ns_),
            .exposed_communication_s = ns * static_cast<double>(waits.communication_ns),
            .feed_wait_s = ns * static_cast<double>(waits.feed_ns)};
  op::ResultBlock block;
  if (!entry.result_block) return block;
  const auto bytes = backend_.bytes(entry.program->buffer(*entry.result_block), parity);
  std::memcpy(&block, bytes.data(), sizeof block);
  return block;
}

}  // namespace fourfold::run
