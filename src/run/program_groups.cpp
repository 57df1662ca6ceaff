#include "run/program_groups.h"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace fourfold::run {
namespace {

std::int64_t largest_access(const program::Instruction& instruction) {
  std::int64_t bytes = 0;
  for (const program::Access& access : program::accesses(instruction))
    bytes = std::max(bytes, access.slice.bytes());
  return bytes;
}

}  // namespace

const program::Group* group_of(const program::Program& program,
                               const program::Instruction& instruction) {
  return std::visit(
      [&]<class Kind>(const Kind& what) -> const program::Group* {
        if constexpr (requires { what.group; })
          return &program.groups[what.group.index()];
        else
          return nullptr;
      },
      instruction.what);
}

bool communicates(const program::Program& program, const program::Instruction& instruction) {
  if (const program::Group* group = group_of(program, instruction))
    return group->members.size() > 1;
  return std::holds_alternative<program::Send>(instruction.what) ||
         std::holds_alternative<program::Recv>(instruction.what);
}

std::vector<comm::GroupSpec> groups_of(const program::Bundle& bundle) {
  std::vector<comm::GroupSpec> specs;
  for (const program::Program& program : bundle.programs)
    for (const program::Instruction& instruction : program.instructions) {
      const program::Group* group = group_of(program, instruction);
      if (group == nullptr || group->members.size() == 1) continue;
      const std::string& stream = program.streams[instruction.stream.index()];
      const std::vector<Rank> members(group->members.begin(), group->members.end());
      const auto same = [&](const comm::GroupSpec& spec) {
        return spec.name == stream && spec.members == members;
      };
      auto place = std::ranges::find_if(specs, same);
      if (place == specs.end()) place = specs.insert(place, {stream, members, 0});
      place->largest_bytes = std::max(place->largest_bytes, largest_access(instruction));
    }
  return specs;
}

}  // namespace fourfold::run
