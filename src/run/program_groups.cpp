#include "run/program_groups.h"

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>
#include <variant>

#include "program/job.h"

namespace fourfold::run {
namespace {

/// Bytes of the tensors of a collective, all together: of the larger side, and of both where there
/// are several.
struct Size {
  std::int64_t larger_side = 0, both_of_list = 0;
};
Size size_of(const program::Instruction& instruction) {
  Size size;
  std::visit(
      [&]<class Kind>(const Kind& what) {
        if constexpr (program::AnyCollective<Kind>) {
          std::size_t tensors = 0;
          std::int64_t both = 0;
          program::for_each_tensor(what, [&](const program::Slice& from, const program::Slice& to) {
            size.larger_side += std::max(from.bytes(), to.bytes());
            both += &from == &to ? from.bytes() : from.bytes() + to.bytes();
            ++tensors;
          });
          if (tensors > 1) size.both_of_list = both;
        }
      },
      instruction.what);
  return size;
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
      const Size size = size_of(instruction);
      place->largest_bytes = std::max(place->largest_bytes, size.larger_side);
      place->largest_list_bytes = std::max(place->largest_list_bytes, size.both_of_list);
    }
  return specs;
}

std::int64_t staged_bytes(const comm::GroupSpec& group) {
  return std::max(2 * group.largest_bytes, group.largest_list_bytes);
}

std::int64_t staged_bytes(const program::Bundle& bundle) {
  std::int64_t bytes = 0;
  for (const comm::GroupSpec& group : groups_of(bundle)) bytes += staged_bytes(group);
  std::map<std::string, std::int64_t> largest;  // message of each stream
  for (const program::Program& program : bundle.programs)
    for (const program::Instruction& instruction : program.instructions) {
      std::int64_t& most = largest[program.streams[instruction.stream.index()]];
      if (const auto* send = std::get_if<program::Send>(&instruction.what))
        most = std::max(most, send->from.bytes());
      if (const auto* recv = std::get_if<program::Recv>(&instruction.what))
        most = std::max(most, recv->to.bytes());
    }
  for (const auto& [stream, most] : largest) bytes += most;
  return bytes;
}

std::vector<comm::Channel> message_channels(const program::Bundle& bundle) {
  std::vector<comm::Channel> channels;
  for (const program::Channel& channel : program::channels_of(bundle))
    channels.push_back({channel.peer, static_cast<int>(channel.tag), channel.sends});
  return channels;
}

}  // namespace fourfold::run
