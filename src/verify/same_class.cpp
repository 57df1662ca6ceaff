#include "verify/same_class.h"

#include <map>
#include <tuple>

#include "base/format.h"
#include "program/text.h"

namespace fourfold::verify {

namespace {

/// The op without the attributes that rule `part` recomputes for each rank.
op::Op without_places(op::Op op) {
  op::for_each_place(op, []<class T>(const op::Place& place, T& told) {
    if (!place.differs_by_rank()) return;
    if constexpr (std::is_same_v<T, op::SampleWindow>)
      told.first = 0;
    else
      told = {};
  });
  return op;
}

bool alike_but_offset(Slice a, const Slice& b) {
  a.offset_bytes = b.offset_bytes;
  return a == b;
}

/// Tells whether two instructions differ only in what follows from coordinates.
class Alike {
 public:
  explicit Alike(const Program& program) : program_(program) {}

  bool operator()(const Compute& a, const Compute& b) const {
    if (a.dtype != b.dtype || a.workspace != b.workspace || a.implementation != b.implementation ||
        a.slices.size() != b.slices.size() || a.op.index() != b.op.index())
      return false;
    const bool updates = is_update(a.op);
    for (std::size_t i = 0; i < a.slices.size(); ++i) {
      const bool own = updates && program_.buffer(a.slices[i].buffer).role == BufferRole::parameter;
      if (!(own ? alike_but_offset(a.slices[i], b.slices[i]) : a.slices[i] == b.slices[i]))
        return false;
    }
    return a.op == b.op || without_places(a.op) == without_places(b.op);
  }
  /// Only a copy of an own block begins elsewhere: the target is a smaller part of one tensor.
  bool operator()(const Copy& a, const Copy& b) const {
    const Buffer &from = program_.buffer(a.from.buffer), &to = program_.buffer(a.to.buffer);
    const bool own = from.global == to.global && from.size_bytes > to.size_bytes;
    return a.to == b.to && (own ? alike_but_offset(a.from, b.from) : a.from == b.from);
  }
  /// Each rank has rows of its own of what is gathered in place.
  bool operator()(const AllGather& a, const AllGather& b) const {
    if (a.group != b.group || a.to != b.to || a.from.size() != b.from.size()) return false;
    for (std::size_t i = 0; i < a.from.size(); ++i) {
      const bool own = a.from[i].buffer == a.to[i].buffer;
      if (!(own ? alike_but_offset(a.from[i], b.from[i]) : a.from[i] == b.from[i])) return false;
    }
    return true;
  }
  /// Ranks have peers of their own, one for one: messages of one tag that go to one peer here go to
  /// one over there, so that what is proved of their order is proved of both.
  bool operator()(const Send& a, const Send& b) {
    return a.from == b.from && a.tag == b.tag && is_peer(true, a.tag, a.peer, b.peer);
  }
  bool operator()(const Recv& a, const Recv& b) {
    return a.to == b.to && a.tag == b.tag && is_peer(false, a.tag, a.peer, b.peer);
  }
  template <class Kind>
  bool operator()(const Kind& a, const Kind& b) const {
    return a == b;
  }
  template <class A, class B>
  bool operator()(const A&, const B&) const {
    return false;
  }

 private:
  bool is_peer(bool sends, std::int64_t tag, Rank a, Rank b) {
    return there_.try_emplace({sends, tag, a}, b).first->second == b &&
           back_.try_emplace({sends, tag, b}, a).first->second == a;
  }

  const Program& program_;
  std::map<std::tuple<bool, std::int64_t, Rank>, Rank> there_, back_;
};

std::string header_difference(const Program& a, const Program& b) {
  const auto groups_differ = [&] {
    if (a.groups.size() != b.groups.size()) return true;
    for (std::size_t i = 0; i < a.groups.size(); ++i) {
      const Group &one = a.groups[i], &other = b.groups[i];
      if (one.name != other.name || one.mesh != other.mesh || one.axes != other.axes) return true;
    }
    return false;
  };
  Feeds feeds = b.feeds;
  feeds.first = a.feeds.first;
  if (a.streams != b.streams) return "its streams";
  if (a.buffers.size() != b.buffers.size()) return "the number of its buffers";
  for (std::size_t i = 0; i < a.buffers.size(); ++i)
    if (!(a.buffers[i] == b.buffers[i])) return format("its buffer {}", b.buffers[i].name);
  if (a.persistent_bytes != b.persistent_bytes || a.transient_bytes != b.transient_bytes)
    return "the size of its regions";
  if (groups_differ()) return "its groups, apart from their members,";
  if (b.inputs != a.inputs) return "its inputs";
  if (!(feeds == a.feeds)) return "its feeds, apart from the first sample,";
  if (a.reduce != b.reduce) return "the type in which it reduces gradients";
  if (a.num_events != b.num_events) return "the number of its events";
  return {};
}

std::optional<Difference> program_difference(const Program& a, const Program& b,
                                             std::size_t index) {
  if (const std::string what = header_difference(a, b); !what.empty())
    return Difference{index, {}, format("{} differs from that of rank {}", what, a.rank.index())};
  const std::size_t common = std::min(a.instructions.size(), b.instructions.size());
  Alike alike(a);
  for (std::size_t i = 0; i < common; ++i) {
    const Instruction &one = a.instructions[i], &other = b.instructions[i];
    if (one.stream == other.stream && std::visit(alike, one.what, other.what)) continue;
    const std::string text = short_text(a, one);
    return Difference{
        index, i,
        text == short_text(b, other)
            ? format("it differs from that of rank {} in stream, attributes or slices",
                     a.rank.index())
            : format("rank {} of the same mesh has ({}) here", a.rank.index(), text)};
  }
  if (a.instructions.size() != b.instructions.size())
    return Difference{index,
                      {},
                      format("it has {} instructions, that of rank {} {}", b.instructions.size(),
                             a.rank.index(), a.instructions.size())};
  if (a.tasks != b.tasks)
    return Difference{index, {}, format("its tasks differ from those of rank {}", a.rank.index())};
  return std::nullopt;
}

}  // namespace

std::optional<Difference> difference(const Bundle& first, const Bundle& other) {
  for (std::size_t i = 0; i < first.programs.size(); ++i)
    if (auto found = program_difference(first.programs[i], other.programs[i], i)) return found;
  if (first.persistent_bytes != other.persistent_bytes ||
      first.transient_bytes != other.transient_bytes)
    return Difference{0,
                      {},
                      format("the regions of its bundle differ from those of rank {}",
                             first.programs[0].rank.index())};
  return std::nullopt;
}

}  // namespace fourfold::verify
