#include "run/serial_order.h"

#include <map>
#include <type_traits>
#include <utility>
#include <variant>

namespace fourfold::run {
namespace {

using program::TaskKind;
using Phase = SerialPlace::Phase;

std::int64_t mesh_of(const program::Program& program) {
  for (std::size_t mesh = 0; mesh < program.meshes.size(); ++mesh)
    if (program.meshes[mesh].coordinates_of(program.rank)) return static_cast<std::int64_t>(mesh);
  return 0;
}

std::int64_t pass_of(TaskKind kind) {
  return kind == TaskKind::forward ? 0 : kind == TaskKind::backward ? 1 : 2;
}

bool is_pass(const program::Task& task) {
  return task.micro && (task.kind == TaskKind::forward || task.kind == TaskKind::backward ||
                        task.kind == TaskKind::weight_backward);
}

bool is_counted(const program::Instruction& instruction) {
  return std::visit(
      []<class Kind>(const Kind&) {
        return std::is_same_v<Kind, program::Compute> || program::AnyCollective<Kind>;
      },
      instruction.what);
}

}  // namespace

std::vector<SerialPlace> serial_places(const program::Program& program) {
  const auto meshes = static_cast<std::int64_t>(program.meshes.size());
  const std::int64_t mesh = mesh_of(program);
  // A mesh has every stage of which the number is its own, modulo the number of meshes; forward
  // passes meet the first stage first, the others the last.
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> passes;  // by pass and micro-batch
  // What is in no task, as in programs that are written by hand, has its place in the list.
  std::vector<SerialPlace> places(program.instructions.size(), {.phase = Phase::update});
  for (std::size_t i = 0; i < places.size(); ++i) places[i].number = static_cast<std::int64_t>(i);
  for (const program::Task& task : program.tasks) {
    SerialPlace place{.phase = Phase::update};
    if (task.kind == TaskKind::receive) {
      place.phase = Phase::received;
    } else if (is_pass(task)) {
      const std::int64_t pass = pass_of(task.kind);
      const std::int64_t before = passes[{pass, *task.micro}]++;
      place = {.phase = Phase::passes,
               .micro = *task.micro,
               .pass = pass,
               .stage = before * meshes + (pass == 0 ? mesh : meshes - 1 - mesh)};
    }
    std::int64_t counted = 0;
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const bool counts = is_counted(program.instructions[i]);
      place.number = 2 * counted + (counts ? 1 : 0);  // a message comes before what is counted next
      counted += counts ? 1 : 0;
      places[i] = place;
    }
  }
  return places;
}

}  // namespace fourfold::run
