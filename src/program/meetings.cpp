#include "program/meetings.h"

#include <optional>
#include <type_traits>
#include <utility>

#include "base/format.h"
#include "program/bind.h"

namespace fourfold::program {
namespace {

/// The messages of a bundle, which binding gives their peers, and nothing else of it.
Bundle messages_of(const Bundle& bundle) {
  Bundle frame;
  for (const Program& program : bundle.programs) {
    Program& some = frame.programs.emplace_back();
    for (const Instruction& instruction : program.instructions)
      if (std::holds_alternative<Send>(instruction.what) ||
          std::holds_alternative<Recv>(instruction.what))
        some.instructions.push_back(instruction);
  }
  return frame;
}

std::string name_of(const Program& program, const Group& group) {
  return format("{} of mesh {}", group.name, program.meshes[group.mesh.index()].name);
}

/// The communicators of the ranks of one class. Ranks whose group has the same first member have
/// one, so that its members are listed once and not by each of them.
class GroupsOfClass {
 public:
  explicit GroupsOfClass(const Program& program)
      : program_(program), known_(program.groups.size()) {}

  std::vector<std::uint32_t> of(Rank rank, Communicators& communicators) {
    std::vector<std::uint32_t> numbers;
    numbers.reserve(known_.size());
    std::optional<MeshId> looked_at;
    std::vector<std::int64_t> coordinates;
    for (std::size_t i = 0; i < known_.size(); ++i) {
      const Group& group = program_.groups[i];
      const Mesh& mesh = program_.meshes[group.mesh.index()];
      if (looked_at != group.mesh) coordinates = coordinates_of(mesh, rank);
      looked_at = group.mesh;
      const std::size_t first = first_place(mesh, group, coordinates);
      const auto [known, is_new] = known_[i].try_emplace(first, 0);
      if (is_new)
        known->second =
            communicators.number({name_of(program_, group), members_from(mesh, group, first)});
      numbers.push_back(known->second);
    }
    return numbers;
  }

 private:
  const Program& program_;
  std::vector<std::map<std::size_t, std::uint32_t>> known_;  // by group and first place
};

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
    result.groups.push_back(communicators.number({name_of(program, group), group.members}));
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
  std::vector<Bundle> messages;
  std::vector<GroupsOfClass> groups;
  for (const Bundle& bundle : job.classes) {
    result.classes.push_back(stops_of(bundle.programs[program]));
    messages.push_back(messages_of(bundle));
    groups.emplace_back(bundle.programs[program]);
  }
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const Binding& binding = job.ranks[rank];
    Partners& partners = result.ranks.emplace_back();
    if (!result.classes[binding.of_class].messages.empty())
      partners = partners_of(
          bound_to(messages[binding.of_class], Rank(rank), binding.peers).programs[program],
          result.communicators);
    partners.groups = groups[binding.of_class].of(Rank(rank), result.communicators);
  }
  return result;
}

}  // namespace fourfold::program
