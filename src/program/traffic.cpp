#include "program/traffic.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

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

/// A collective's payload and how often a ring sends it, in parts of (n-1)/n.
struct Move {
  std::string_view kind;
  GroupId group;
  Slice tensor;  // whose buffer has the label
  std::int64_t payload_bytes = 0;
  double passes = 1;
};

std::optional<Move> move_of(const What& what) {
  if (const auto* all_reduce = std::get_if<AllReduce>(&what))
    return Move{AllReduce::name, all_reduce->group, all_reduce->data, all_reduce->data.bytes(), 2};
  if (const auto* scatter = std::get_if<ReduceScatter>(&what))
    return Move{ReduceScatter::name, scatter->group, scatter->from, scatter->from.bytes(), 1};
  if (const auto* gather = std::get_if<AllGather>(&what))
    return Move{AllGather::name, gather->group, gather->from, gather->to.bytes(), 1};
  if (const auto* exchange = std::get_if<AllToAll>(&what))
    return Move{AllToAll::name, exchange->group, exchange->from, exchange->from.bytes(), 1};
  return std::nullopt;
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
                         const Slice& tensor, std::int64_t payload_bytes, double passes) {
    const std::string_view label = label_of(program, tensor);
    Traffic& entry =
        entries
            .try_emplace({place, kind, label}, Traffic{std::move(axis), kind, std::string(label)})
            .first->second;
    ++entry.calls;
    entry.payload_bytes += payload_bytes;
    entry.sent_bytes += passes * static_cast<double>(payload_bytes);
  };
  const std::vector<std::size_t> places = places_of(program);
  for (const Instruction& instruction : program.instructions) {
    if (const auto* send = std::get_if<Send>(&instruction.what))
      count(program.groups.size(), "", Send::name, send->from, send->from.bytes(), 1);
    const auto move = move_of(instruction.what);
    if (!move) continue;
    const Group& group = program.groups[move->group.index()];
    const auto ranks = static_cast<double>(group.members.size());
    count(places[move->group.index()], program.axes_text(group), move->kind, move->tensor,
          move->payload_bytes, move->passes * (ranks - 1) / ranks);
  }
  std::vector<Traffic> list;
  for (auto& [key, entry] : entries) list.push_back(std::move(entry));
  return list;
}

}  // namespace fourfold::program
