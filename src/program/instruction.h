// The instructions of a step: a closed set of kinds. What they compute is op/'s business, how is
// kernels/'.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/collective.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "base/mesh.h"
#include "base/rare.h"
#include "op/table.h"

namespace fourfold::program {

using BufferId = Id<struct BufferTag>;
using StreamId = Id<struct StreamTag>;
using GroupId = Id<struct GroupTag>;
using EventId = Id<struct EventTag>;
using InputId = Id<struct InputTag>;

/// A part of one buffer: `rows` runs of `row_bytes`, their starts `pitch_bytes` apart. One row has
/// pitch 0.
struct Slice {
  BufferId buffer;
  std::int64_t offset_bytes = 0, rows = 1, row_bytes = 0, pitch_bytes = 0;
  bool operator==(const Slice&) const = default;

  std::int64_t bytes() const { return rows * row_bytes; }
  /// One past the last byte, counted from the start of the buffer.
  std::int64_t end_bytes() const { return offset_bytes + (rows - 1) * pitch_bytes + row_bytes; }
};

/// The tensors of one collective: it does to each what it would do to that one alone, and the ranks
/// meet once for all of them. They have one element type.
using Slices = std::vector<Slice>;

// Each kind lists its fields once. `visit.field` takes plain fields, `visit.option` a number that
// is 0 as a rule, and then not printed; `visit.read`, `visit.write` and `visit.update` take the
// slices it touches, one or a list. Printing, parsing and operands() all follow from this list.

/// A row of the op table applied to slices: reads first, then writes and updates, in the order of
/// op::operands.
struct Compute {
  op::Op op;
  DType dtype = DType::f32;
  std::vector<Slice> slices;
  Rare<Slice> workspace;       // scratch whose content nobody else sees
  std::string implementation;  // chosen at compile time: "reference", "openblas", ...
  bool operator==(const Compute&) const = default;
};

// Collectives: what a kind holds before and after is what its collective does, and all variants of
// that (CollectiveFacts::plain) are of this kind. `kind` says which one it is, and names it.

/// data = reduction of data over the group, for each tensor.
struct AllReduce {
  static constexpr Collective plain = Collective::all_reduce;
  GroupId group;
  op::Reduction reduction = op::Reduction::sum;
  Slices data;
  Collective kind = plain;
  bool operator==(const AllReduce&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.field("group", self.group);
    visit.field("reduction", self.reduction);
    visit.update("data", self.data);
  }
};

/// Member i of the group gets the i-th of equal parts of the reduction of `from`, for each tensor.
/// Entry k of `to` belongs to entry k of `from`, here and in the kinds below.
struct ReduceScatter {
  static constexpr Collective plain = Collective::reduce_scatter;
  GroupId group;
  op::Reduction reduction = op::Reduction::sum;
  Slices from, to;
  Collective kind = plain;
  bool operator==(const ReduceScatter&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.field("group", self.group);
    visit.field("reduction", self.reduction);
    visit.read("from", self.from);
    visit.write("to", self.to);
  }
};

/// to = the `from` of all members, in their order, for each tensor.
struct AllGather {
  static constexpr Collective plain = Collective::all_gather;
  GroupId group;
  Slices from, to;
  Collective kind = plain;
  bool operator==(const AllGather&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.field("group", self.group);
    visit.read("from", self.from);
    visit.write("to", self.to);
  }
};

/// Part j of member i's `from` becomes part i of member j's `to`, for each tensor.
struct AllToAll {
  static constexpr Collective plain = Collective::all_to_all;
  GroupId group;
  Slices from, to;
  Collective kind = plain;
  bool operator==(const AllToAll&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.field("group", self.group);
    visit.read("from", self.from);
    visit.write("to", self.to);
  }
};

/// Pairs with the Recv of the same tag on `peer`.
struct Send {
  static constexpr std::string_view name = "send";
  Rank peer;
  std::int64_t tag = 0;
  Slice from;
  bool operator==(const Send&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.field("peer", self.peer);
    visit.field("tag", self.tag);
    visit.read("from", self.from);
  }
};

struct Recv {
  static constexpr std::string_view name = "recv";
  Rank peer;
  std::int64_t tag = 0;
  Slice to;
  bool operator==(const Recv&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.field("peer", self.peer);
    visit.field("tag", self.tag);
    visit.write("to", self.to);
  }
};

struct Copy {
  static constexpr std::string_view name = "copy";
  Slice from, to;
  bool operator==(const Copy&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.read("from", self.from);
    visit.write("to", self.to);
  }
};

/// Reorders a plain tensor into a buffer that is `blocked` (Buffer::blocked); both have one
/// sharding. Where the parts have room for more than the dim has (padding), the rest becomes zero.
struct Pack {
  static constexpr std::string_view name = "pack";
  Slice from, to;
  bool operator==(const Pack&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.read("from", self.from);
    visit.write("to", self.to);
  }
};

/// Reorders a blocked tensor into a plain one; padding at the end of the dim is dropped.
struct Unpack {
  static constexpr std::string_view name = "unpack";
  Slice from, to;
  bool operator==(const Unpack&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.read("from", self.from);
    visit.write("to", self.to);
  }
};

/// Brings this rank's part of a micro-batch of an input from the host, or of one of its chunks;
/// which samples these are stands in Program::feeds.
struct Feed {
  static constexpr std::string_view name = "feed";
  InputId input;
  std::int64_t micro = 0;
  Slice to;
  std::int64_t chunk = 0;
  bool operator==(const Feed&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.field("input", self.input);
    visit.field("micro", self.micro);
    visit.option("chunk", self.chunk);
    visit.write("to", self.to);
  }
};

/// Marks a point of its stream: everything before it on that stream is done.
struct Record {
  static constexpr std::string_view name = "record";
  EventId event;
  bool operator==(const Record&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.field("event", self.event);
  }
};

/// Holds its stream until the event has been recorded. An event is recorded once in a program.
struct Wait {
  static constexpr std::string_view name = "wait";
  EventId event;
  bool operator==(const Wait&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit.field("event", self.event);
  }
};

using AnyKind = std::variant<Compute, AllReduce, ReduceScatter, AllGather, AllToAll, Send, Recv,
                             Copy, Pack, Unpack, Feed, Record, Wait>;

/// One of the kinds. Copying and comparing are compiled once, as those of op::Op.
class What : public AnyKind {
 public:
  template <class T>
    requires requires(AnyKind& any) { std::get<T>(any); }
  What(T kind) : AnyKind(std::in_place_type<T>, std::move(kind)) {}
  What();
  What(const What& other);
  What(What&& other) noexcept;
  What& operator=(const What& other);
  What& operator=(What&& other) noexcept;
  ~What();
  bool operator==(const What& other) const;
};

struct Instruction {
  StreamId stream;
  What what;
  bool operator==(const Instruction&) const = default;
};

/// "contract", "all_reduce", "record", ...
std::string_view name(const Instruction& instruction);

/// The kinds in which the members of a group meet.
template <class Kind>
concept AnyCollective = requires(const Kind& what) { what.group; };

/// Calls visit(from, to) for each tensor of a collective; where it works in place, both are one.
template <AnyCollective Kind, class Visit>
void for_each_tensor(Kind& what, Visit&& visit) {
  if constexpr (requires { what.data; })
    for (auto& slice : what.data) visit(slice, slice);
  else
    for (std::size_t i = 0; i < what.from.size() && i < what.to.size(); ++i)
      visit(what.from[i], what.to[i]);
}

/// Hands the slices among the fields of a kind to a function.
template <class Visit>
struct SliceFields {
  Visit& visit;
  template <class T>
  void field(std::string_view, T&) {}
  void option(std::string_view, std::int64_t&) {}
  void read(std::string_view, Slice& slice) { visit(slice); }
  void write(std::string_view, Slice& slice) { visit(slice); }
  void update(std::string_view, Slice& slice) { visit(slice); }
  void read(std::string_view, Slices& list) { all(list); }
  void write(std::string_view, Slices& list) { all(list); }
  void update(std::string_view, Slices& list) { all(list); }

 private:
  void all(Slices& list) {
    for (Slice& slice : list) visit(slice);
  }
};

/// Calls `visit` with every slice of an instruction, for changing them.
template <class Visit>
void for_each_slice(Instruction& instruction, Visit&& visit) {
  std::visit(
      [&]<class Kind>(Kind& what) {
        if constexpr (std::is_same_v<Kind, Compute>) {
          for (Slice& slice : what.slices) visit(slice);
          if (what.workspace) visit(*what.workspace);
        } else {
          SliceFields<std::remove_reference_t<Visit>> fields{visit};
          Kind::fields(what, fields);
        }
      },
      instruction.what);
}

/// What an instruction touches. A workspace counts as a write.
struct Access {
  Slice slice;
  op::Role role = op::Role::read;
};
std::vector<Access> accesses(const Instruction& instruction);

/// True if an op changes parameters.
inline bool is_update(const op::Op& op) {
  return op::updates(op, op::State::weight);
}

/// Calls `visit` with each computation that a chain of rows or a row over a list of tensors stands
/// for (op::pieces), over its slices; with any other itself.
template <class Visit>
void for_each_piece(const Compute& compute, Visit&& visit) {
  if (op::stands_for_itself(compute.op)) {
    visit(compute);
    return;
  }
  for (const op::Piece& piece : op::pieces(compute.op)) {
    Compute one{piece.op, compute.dtype, {}, std::nullopt, compute.implementation};
    for (const std::size_t operand : piece.operands) one.slices.push_back(compute.slices[operand]);
    visit(one);
  }
}

}  // namespace fourfold::program
