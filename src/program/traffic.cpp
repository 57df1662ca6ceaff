#include "program/traffic.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "op/blocks.h"

namespace fourfold::program {
namespace {

/// The label of what a slice holds: the buffer's, or that of a field of the result block.
std::string_view label_of(const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffer(slice.buffer);
  if (buffer.role == BufferRole::result_block)
    for (const op::BlockField& field : op::result_fields)
      if (static_cast<std::int64_t>(field.offset_bytes) == slice.offset_bytes) return field.label;
  return buffer.label;
}

/// By group: the first one along the same axes.
std::vector<std::size_t> places_of(const Program& program) {
  std::vector<std::size_t> places;
  for (const Group& group : program.groups) {
    const auto same = std::ranges::find_if(program.groups, [&](const Group& other) {
      return other.mesh == group.mesh && other.axes == group.axes;
    });
    places.push_back(static_cast<std::size_t>(same - program.groups.begin()));
  }
  return places;
}

}  // namespace

std::vector<Traffic> traffic(const Program& program) {
  // Messages come after all groups.
  std::map<std::tuple<std::size_t, std::string_view, std::string_view>, Traffic> entries;
  const auto count = [&](std::size_t place, std::string axis, std::string_view kind,
                         const Slice& tensor, std::int64_t payload_bytes,
                         double share) -> Traffic& {
    const std::string_view label = label_of(program, tensor);
    Traffic& entry =
        entries
            .try_emplace({place, kind, label}, Traffic{std::move(axis), kind, std::string(label)})
            .first->second;
    entry.payload_bytes += payload_bytes;
    entry.sent_bytes += share * static_cast<double>(payload_bytes);
    return entry;
  };
  const std::vector<std::size_t> places = places_of(program);
  const auto count_all = [&]<class Kind>(const Kind& what) {
    if constexpr (std::is_same_v<Kind, Send>)
      ++count(program.groups.size(), "", Send::name, what.from, what.from.bytes(), 1).calls;
    if constexpr (AnyCollective<Kind>) {
      const Group& group = program.groups[what.group.index()];
      const auto ranks = static_cast<double>(group.members.size());
      std::int64_t calls = 1;
      for_each_tensor(what, [&](const Slice& from, const Slice& to) {
        count(places[what.group.index()], program.axes_text(group), to_string(what.kind), from,
              std::max(from.bytes(), to.bytes()), facts_of(what.kind).sent_share(ranks))
            .calls += std::exchange(calls, 0);
      });
    }
  };
  for (const Instruction& instruction : program.instructions)
    std::visit(count_all, instruction.what);
  std::vector<Traffic> list;
  for (auto& [key, entry] : entries) list.push_back(std::move(entry));
  return list;
}

}  // namespace fourfold::program
