#include "program/meetings.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"
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

/// Equal entries have equal hashes; different ones seldom: groups of one name differ at their ends.
std::size_t hash_of(const Communicators::Entry& entry) {
  std::size_t hash = std::hash<std::string>()(entry.name);
  const auto add = [&](std::size_t number) {
    hash = (hash ^ number) * std::size_t{0x9e3779b97f4a7c15};  // 2^64 by the golden ratio
    hash ^= hash >> 32;
  };
  add(entry.members.size());
  if (entry.members.empty()) return hash;
  add(entry.members.front().index());
  add(entry.members[entry.members.size() - 1].index());
  return hash;
}

/// The communicators of the ranks of one class. Ranks whose group has the same first member have
/// one, so that its members are listed once and not by each of them.
class GroupsOfClass {
 public:
  explicit GroupsOfClass(const Program& program)
      : program_(program), known_(program.groups.size()) {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      const Group& group = program.groups[i];
      const Mesh& mesh = program.meshes[group.mesh.index()];
      known_[i].resize(mesh.ranks.size());
      names_.push_back(name_of(program, group));
      std::vector<std::size_t>& strides = strides_.emplace_back();
      for (const AxisId axis : group.axes) strides.push_back(stride_of(mesh, axis));
    }
  }

  /// How many communicators the ranks of its meshes have at most.
  std::size_t most_communicators() const {
    std::size_t count = 0;
    for (const Group& group : program_.groups)
      count += program_.meshes[group.mesh.index()].ranks.size() /
               std::max<std::size_t>(group.members.size(), 1);
    return count;
  }

  std::vector<std::uint32_t> of(Rank rank, Communicators& communicators) {
    std::vector<std::uint32_t> numbers;
    numbers.reserve(known_.size());
    std::optional<MeshId> looked_at;
    std::size_t place = 0;
    for (std::size_t i = 0; i < known_.size(); ++i) {
      const Group& group = program_.groups[i];
      const Mesh& mesh = program_.meshes[group.mesh.index()];
      if (looked_at != group.mesh) place = place_of(mesh, rank);
      looked_at = group.mesh;
      std::size_t first = place;  // its coordinates on the axes of the group are 0
      for (std::size_t j = 0; j < group.axes.size(); ++j) {
        const auto size = static_cast<std::size_t>(mesh.axes[group.axes[j].index()].size);
        first -= place / strides_[i][j] % size * strides_[i][j];
      }
      std::optional<std::uint32_t>& known = known_[i][first];
      if (!known) known = communicators.number({names_[i], members_of(i, first)});
      numbers.push_back(*known);
    }
    return numbers;
  }

 private:
  static std::size_t place_of(const Mesh& mesh, Rank rank) {
    const auto place = mesh.ranks.position(rank);
    require(place.has_value(), "a rank of a class is on the meshes of its groups");
    return *place;
  }
  /// As members_from, at less cost where the group has one axis.
  Ranks members_of(std::size_t number, std::size_t first) const {
    const Group& group = program_.groups[number];
    const Mesh& mesh = program_.meshes[group.mesh.index()];
    if (group.axes.size() != 1) return members_from(mesh, group, first);
    const std::size_t stride = strides_[number][0];
    const auto size = static_cast<std::size_t>(mesh.axes[group.axes[0].index()].size);
    return mesh.ranks.range(first, size, stride);
  }
  /// Between the places of two ranks that are neighbours on the axis.
  static std::size_t stride_of(const Mesh& mesh, AxisId axis) {
    std::size_t stride = 1;
    for (std::size_t i = axis.index() + 1; i < mesh.axes.size(); ++i)
      stride *= static_cast<std::size_t>(mesh.axes[i].size);
    return stride;
  }

  const Program& program_;
  std::vector<std::vector<std::optional<std::uint32_t>>> known_;  // by group and first place
  std::vector<std::string> names_;                                // by group
  std::vector<std::vector<std::size_t>> strides_;                 // by group and its axes
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

std::uint32_t Communicators::number(Entry entry) {
  const std::size_t mask = places_.size() - 1;
  std::size_t place = hash_of(entry) & mask;
  for (; places_[place] > 0; place = (place + 1) & mask)
    if (entries_[places_[place] - 1] == entry) return places_[place] - 1;
  entries_.push_back(std::move(entry));
  const auto number = static_cast<std::uint32_t>(entries_.size());
  places_[place] = number;
  if (2 * entries_.size() > places_.size()) set_places(2 * places_.size());
  return number - 1;
}

void Communicators::reserve(std::size_t count) {
  entries_.reserve(count);
  if (2 * count > places_.size()) set_places(std::bit_ceil(2 * count));
}

/// A power of two.
void Communicators::set_places(std::size_t count) {
  places_.assign(count, 0);
  const std::size_t mask = places_.size() - 1;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::size_t place = hash_of(entries_[i]) & mask;
    while (places_[place] > 0) place = (place + 1) & mask;
    places_[place] = static_cast<std::uint32_t>(i + 1);
  }
}

std::string Communicators::text(std::uint32_t number) const {
  std::string text = format("{}: ranks", entries_[number].name);
  for (const Rank member : entries_[number].members) text += format(" {}", member.index());
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
  std::size_t most = 0;
  for (const Bundle& bundle : job.classes) {
    result.classes.push_back(stops_of(bundle.programs[program]));
    messages.push_back(messages_of(bundle));
    groups.emplace_back(bundle.programs[program]);
    most += groups.back().most_communicators();
  }
  result.communicators.reserve(most);
  result.ranks.reserve(job.ranks.size());
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
