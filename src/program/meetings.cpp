#include "program/meetings.h"

#include <type_traits>
#include <utility>

#include "base/format.h"

namespace fourfold::program {
namespace {

/// What binding changes of a rank's groups and messages, and nothing else of its bundle.
Bundle frame_of(const Bundle& bundle) {
  Bundle frame;
  for (const Program& program : bundle.programs) {
    Program& some = frame.programs.emplace_back();
    some.meshes = program.meshes;
    some.groups = program.groups;
    for (const Instruction& instruction : program.instructions)
      if (std::holds_alternative<Send>(instruction.what) ||
          std::holds_alternative<Recv>(instruction.what))
        some.instructions.push_back(instruction);
  }
  return frame;
}

}  // namespace

Stops stops_of(const Program& program) {
  Stops result;
  result.streams.resize(program.streams.size());
  result.collectives.resize(program.groups.size());
  result.record_streams.resize(program.num_events);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const std::size_t stream = program.instructions[i].stream.index();
    const auto index = static_cast<std::uint32_t>(i);
    const auto add = [&](Stop::Kind kind, std::size_t id) {
      result.streams[stream].push_back({kind, index, static_cast<std::uint32_t>(id)});
    };
    std::visit(
        [&]<class Kind>(const Kind& what) {
          if constexpr (requires { what.group; }) {
            add(Stop::Kind::collective, what.group.index());
            result.collectives[what.group.index()].push_back(index);
          } else if constexpr (requires { what.peer; }) {
            constexpr bool is_send = std::is_same_v<Kind, Send>;
            add(is_send ? Stop::Kind::send : Stop::Kind::recv, result.messages.size());
            result.messages.push_back({index, is_send});
          } else if constexpr (std::is_same_v<Kind, Record>) {
            add(Stop::Kind::record, what.event.index());
            result.record_streams[what.event.index()] = static_cast<std::uint32_t>(stream);
          } else if constexpr (std::is_same_v<Kind, Wait>) {
            add(Stop::Kind::wait, what.event.index());
          }
        },
        program.instructions[i].what);
  }
  return result;
}

std::uint32_t Communicators::number(const Entry& entry) {
  const auto [place, inserted] =
      numbers_.try_emplace(entry, static_cast<std::uint32_t>(entries_.size()));
  if (inserted) entries_.push_back(&place->first);
  return place->second;
}

std::string Communicators::text(std::uint32_t number) const {
  std::string text = format("{}: ranks", entries_[number]->name);
  for (const Rank member : entries_[number]->members) text += format(" {}", member.index());
  return text;
}

Partners partners_of(const Program& program, Communicators& communicators) {
  Partners result;
  for (const Group& group : program.groups)
    result.groups.push_back(communicators.number(
        {format("{} of mesh {}", group.name, program.meshes[group.mesh.index()].name),
         group.members}));
  for (const Instruction& instruction : program.instructions)
    std::visit(
        [&](const auto& what) {
          if constexpr (requires { what.peer; }) result.messages.push_back({what.peer, what.tag});
        },
        instruction.what);
  return result;
}

Meetings meetings(const Job& job, std::size_t program) {
  Meetings result;
  std::vector<Bundle> frames;
  for (const Bundle& bundle : job.classes) {
    result.classes.push_back(stops_of(bundle.programs[program]));
    frames.push_back(frame_of(bundle));
  }
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const Binding& binding = job.ranks[rank];
    const Bundle own = bound_to(frames[binding.of_class], Rank(rank), binding.peers);
    result.ranks.push_back(partners_of(own.programs[program], result.communicators));
  }
  return result;
}

}  // namespace fourfold::program
