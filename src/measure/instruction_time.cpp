#include "measure/instruction_time.h"

#include <memory>
#include <string>

#include "op/table.h"
#include "program/program.h"
#include "run/cpu.h"
#include "run/executor.h"

namespace fourfold::measure {
namespace {

constexpr std::size_t num_instructions = 1000;
constexpr std::int64_t num_elements = 16;
constexpr std::int64_t buffer_bytes = num_elements * std::int64_t{sizeof(float)};

/// y = a + b, again and again, on each of so many streams in turn: each waits for what the one
/// before did. It is run, never verified.
program::Bundle small_additions(std::size_t streams) {
  program::Program program;
  program.kind = op::ProgramKind::train;
  program.meshes = {{"all", {{"data", 1}}, {Rank(0)}}};
  program.streams = {"math"};
  if (streams > 1) program.streams.emplace_back("other");
  for (const char* name : {"a", "b", "y"}) {
    program::Buffer buffer;
    buffer.name = name;
    buffer.global = {num_elements};
    buffer.offset_bytes = program.transient_bytes;
    buffer.size_bytes = buffer_bytes;
    program.transient_bytes += buffer_bytes;
    program.buffers.push_back(buffer);
  }
  std::vector<program::Slice> slices;
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    slices.push_back(program.whole(program::BufferId(i)));
  const auto add = [&](std::size_t stream, const program::What& what) {
    program.instructions.push_back({program::StreamId(stream), what});
  };
  for (std::size_t i = 0; i < num_instructions; ++i) {
    const std::size_t stream = i % streams;
    if (streams > 1 && i > 0) add(stream, program::Wait{program::EventId(i - 1)});
    add(stream, program::Compute{op::sum_of_two(), DType::f32, slices, {}, "vector"});
    if (streams > 1) add(stream, program::Record{program::EventId(program.num_events++)});
  }
  program.tasks = {{program::TaskKind::forward, 0, 0, program.instructions.size()}};
  program::Bundle bundle;
  bundle.transient_bytes = program.transient_bytes;
  bundle.programs = {std::move(program)};
  return bundle;
}

/// The time of one addition.
Timing time_additions(comm::World& world, bool is_active, double seconds, std::size_t streams) {
  const program::Bundle bundle = small_additions(streams);
  run::CpuBackend backend;
  run::Executor executor(bundle, backend);
  const op::StepBlock step{};
  Timing timing = time_together(world, seconds, [&] {
    if (is_active) executor.run(op::ProgramKind::train, step);
  });
  for (double* time : {&timing.best_s, &timing.median_s, &timing.mean_s})
    *time /= static_cast<double>(num_instructions);
  return timing;
}

}  // namespace

Timing measure_instruction(comm::World& world, bool is_active, double seconds) {
  return time_additions(world, is_active, seconds, 1);
}

Timing measure_handoff(comm::World& world, double seconds) {
  return time_additions(world, true, seconds, 2);
}

}  // namespace fourfold::measure
