#include "run/describe.h"

#include <algorithm>
#include <variant>

#include "base/format.h"
#include "program/text.h"

namespace fourfold::run {
namespace {

using program::Program;

/// What stands before the record of the event on the record's stream.
std::string awaited(const Program& program, program::EventId event) {
  std::vector<const program::Instruction*> last(program.streams.size(), nullptr);
  for (const program::Instruction& instruction : program.instructions) {
    const auto* record = std::get_if<program::Record>(&instruction.what);
    if (record != nullptr && record->event == event) {
      const program::Instruction* const before = last[instruction.stream.index()];
      const std::string& stream = program.streams[instruction.stream.index()];
      if (before == nullptr) return stream;
      return format("{} on {}", program::short_text(program, *before), stream);
    }
    if (record == nullptr && !std::holds_alternative<program::Wait>(instruction.what))
      last[instruction.stream.index()] = &instruction;
  }
  return "an event";
}

std::string task_text(const Program& program, std::size_t instruction) {
  for (const program::Task& task : program.tasks)
    if (task.begin <= instruction && instruction < task.end)
      return " in " + program::short_text(task);
  return "";
}

}  // namespace

std::string describe_instruction(const Program& program, std::size_t instruction) {
  const program::Instruction& what = program.instructions[instruction];
  const auto* wait = std::get_if<program::Wait>(&what.what);
  const std::string text = wait != nullptr ? "wait for " + awaited(program, wait->event)
                                           : program::short_text(program, what);
  return format("instruction {} ({}{}) of {}", instruction, text, task_text(program, instruction),
                op::to_string(program.kind));
}

comm::Progress::Description describe_place(const Program& program, std::size_t instruction) {
  const auto& what = program.instructions[instruction].what;
  const bool works =
      std::holds_alternative<program::Compute>(what) ||
      std::holds_alternative<program::Copy>(what) || std::holds_alternative<program::Pack>(what) ||
      std::holds_alternative<program::Unpack>(what) ||
      std::holds_alternative<program::Feed>(what) || std::holds_alternative<program::Record>(what);
  return {describe_instruction(program, instruction), !works};
}

std::string describe_rank(const Program& program) {
  std::string text = format("rank {}", program.rank.index());
  for (const Mesh& mesh : program.meshes) {
    const auto coordinates = mesh.coordinates_of(program.rank);
    if (!coordinates) continue;
    std::string where;
    for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
      where += format("{}{} {}", axis == 0 ? "" : ", ", mesh.axes[axis].name, (*coordinates)[axis]);
    return where.empty() ? text : format("{} ({})", text, where);
  }
  return text;
}

}  // namespace fourfold::run
