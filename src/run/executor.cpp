#include "run/executor.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"
#include "base/format.h"

namespace fourfold::run {
Executor::Executor(const program::Bundle& bundle, Backend& backend)
    : bundle_(bundle), backend_(backend) {
  backend.bind(bundle);
  for (std::size_t i = 0; i < bundle.programs.size(); ++i)
    entries_.push_back({&bundle.programs[i], ProgramId(i)});
  if (bundle.programs.empty()) return;
  const program::Program& first = bundle.programs[0];  // all have the same persistent buffers
  for (const program::Buffer& buffer : first.buffers)
    if (buffer.role == program::BufferRole::rounded) {
      const auto parameter = first.find_buffer(program::rounded_name(buffer.name));
      require(parameter.has_value(), "a rounded copy is one of a parameter");
      rounded_.push_back({&first.buffer(*parameter), &buffer});
    }
}

/// As op::Cast rounds on every backend.
void Executor::round_written() {
  for (Rounded& one : rounded_) {
    if (!std::exchange(one.is_stale, false)) continue;
    require(num_under_way_ == 0, "the host writes parameters while nothing is under way");
    require(one.parameter->dtype == DType::f32 && one.copy->dtype == DType::bf16,
            "a rounded copy is one in bf16 of floats");
    const HostView<const std::byte> from = backend_.read(*one.parameter, 0);
    const HostView<std::byte> to = backend_.bytes(*one.copy, 0);
    const auto* x = reinterpret_cast<const float*>(from.data());
    auto* y = reinterpret_cast<BFloat16*>(to.data());
    for (std::size_t i = 0; i < to.size() / sizeof(BFloat16); ++i) y[i] = BFloat16(x[i]);
  }
}

void Executor::note_written(const program::Buffer& buffer) {
  for (Rounded& one : rounded_)
    if (one.parameter->name == buffer.name) one.is_stale = true;
}

op::ResultBlock Executor::run(op::ProgramKind program, const op::StepBlock& step, Feeder* feeder) {
  start(program, step, feeder);
  return finish();
}

void Executor::start(op::ProgramKind program, const op::StepBlock& step, Feeder* feeder) {
  require(num_under_way_ < begin_ns_.size(), "two steps are under way at most");
  round_written();
  const Entry& entry = find(program);
  backend_.trace_next(recorder_ != nullptr ? recorder_->begin_run(program, step.step)
                                           : std::span<trace::Interval>());
  const std::int64_t begin_ns = trace::now_ns();
  backend_.begin(entry.id, step, feeder);
  begin_ns_[num_under_way_++] = begin_ns;
  backend_.issue_all(entry.id, entry.program->instructions.size());
}

op::ResultBlock Executor::finish() {
  require(num_under_way_ > 0, "what is finished was started");
  const std::size_t left = std::exchange(num_under_way_, 0) - 1;
  backend_.finish();
  num_under_way_ = left;
  const std::int64_t begin_ns = std::max(begin_ns_[0], end_ns_);
  begin_ns_[0] = begin_ns_[1];
  const op::ResultBlock result = end(begin_ns);
  if (recorder_ != nullptr) recorder_->end_run({begin_ns, end_ns_});
  return result;
}

void Executor::drain() {
  while (num_under_way_ > 0) try {
      finish();
    } catch (const std::exception&) {
    }
}

op::ResultBlock Executor::run_stepwise(op::ProgramKind program, const op::StepBlock& step,
                                       Feeder* feeder, const After& after) {
  require(num_under_way_ == 0, "instructions are run one by one while nothing is under way");
  round_written();
  const Entry& entry = find(program);
  backend_.trace_next({});
  const std::int64_t begin_ns = trace::now_ns();
  backend_.begin(entry.id, step, feeder);
  for (std::size_t i = 0; i < entry.program->instructions.size(); ++i) {
    backend_.issue(entry.id, i);
    backend_.finish();
    after(*entry.program, i);
  }
  return end(begin_ns);
}

op::ResultBlock Executor::run_watched(op::ProgramKind program, const op::StepBlock& step,
                                      Feeder* feeder, const After& after) {
  require(num_under_way_ == 0, "a program is watched while nothing is under way");
  round_written();
  const Entry& entry = find(program);
  if (!backend_.watch([&](std::size_t instruction) { after(*entry.program, instruction); }))
    return run_stepwise(program, step, feeder, after);
  backend_.trace_next({});
  const std::int64_t begin_ns = trace::now_ns();
  std::exception_ptr fault;
  try {
    backend_.begin(entry.id, step, feeder);
    backend_.issue_all(entry.id, entry.program->instructions.size());
    backend_.finish();
  } catch (const std::exception&) {
    fault = std::current_exception();
  }
  backend_.watch({});
  if (fault) std::rethrow_exception(fault);
  return end(begin_ns);
}

HostView<std::byte> Executor::bytes(const program::Buffer& buffer, std::int64_t parity) {
  note_written(buffer);
  return backend_.bytes(buffer, parity);
}

HostView<const std::byte> Executor::read(const program::Buffer& buffer, std::int64_t parity) {
  return backend_.read(buffer, parity);
}

HostView<std::byte> Executor::bytes(op::ProgramKind program, std::string_view buffer,
                                    std::int64_t parity) {
  const program::Program& found = *find(program).program;
  const auto id = found.find_buffer(buffer);
  if (!id)
    fail_internal(format("program {} has a buffer named {}", op::to_string(program), buffer));
  return bytes(found.buffer(*id), parity);
}

const Executor::Entry& Executor::find(op::ProgramKind program) const {
  const auto is_it = [&](const Entry& entry) { return entry.program->kind == program; };
  const auto place = std::ranges::find_if(entries_, is_it);
  if (place == entries_.end())
    fail_internal(format("the bundle has a program named {}", op::to_string(program)));
  return *place;
}

op::ResultBlock Executor::end(std::int64_t begin_ns) {
  constexpr double ns = 1e-9;
  end_ns_ = trace::now_ns();
  const MathWaits waits = backend_.math_waits();
  times_ = {.total_s = ns * static_cast<double>(end_ns_ - begin_ns),
            .exposed_communication_s = ns * static_cast<double>(waits.communication_ns),
            .feed_wait_s = ns * static_cast<double>(waits.feed_ns)};
  return backend_.result();
}

}  // namespace fourfold::run
