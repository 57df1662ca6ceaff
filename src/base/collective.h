// The collectives that the members of a group carry out together, one row each with what rooms need
// to know of it. Not how one is carried out (comm/), and not what it costs on a machine
// (simulate/).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace fourfold {

/// In the order in which plans list what is sent.
enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
};

/// What each member of a group holds of a tensor.
enum class Holding : std::uint8_t {
  term,   // a tensor of the same shape; the tensor that is meant is the reduction of all of them
  share,  // one of equal parts of it
  whole
};

/// How bytes pass between n members, and in how many steps one after another.
enum class Path : std::uint8_t {
  ring,          // from neighbour to neighbour: n-1 steps
  ring_or_tree,  // the faster one of a ring and of a tree, whose steps are log2 n
  direct         // from each member to all others at once: n-1 starts
};

/// A row. The payload of a collective is the tensor that one member holds before it is cut or after
/// it is gathered, so the larger side.
struct CollectiveFacts {
  Collective kind = Collective::all_reduce;
  /// The collective that gives the same results; another one where this is a variant of it, which
  /// brings them about in another way. Rooms that do not care for the way read this.
  Collective plain = kind;
  std::string_view name;   // in programs, traces, tables and files of machines
  std::string_view moved;  // what a tensor is called in programs that it has made
  Holding takes = Holding::term, gives = Holding::whole;
  Path path = Path::ring;
  /// How often a member sends (n-1)/n of the payload, and goes through the steps of the path: twice
  /// where it reduces and then brings everybody the whole (Thakur, Rabenseifner, Gropp 2005, doi
  /// 10.1177/1094342005051521).
  double passes = 1;

  constexpr bool reduces() const { return takes == Holding::term; }
  /// A dim gains a cut along the group: a member gets a share of what it held.
  constexpr bool scatters() const { return gives == Holding::share; }
  /// A dim loses a cut along the group.
  constexpr bool gathers() const { return takes == Holding::share; }
  /// Both sides are one tensor; all others read one and write another.
  constexpr bool is_in_place() const { return !scatters() && !gathers(); }

  /// How many members' shares lie on one side of it.
  constexpr std::size_t shares_before(std::size_t members) const {
    return scatters() ? members : 1;
  }
  constexpr std::size_t shares_after(std::size_t members) const { return gathers() ? members : 1; }
  /// Bytes of one side, of a payload that the members can share evenly.
  constexpr std::size_t bytes_before(std::size_t payload, std::size_t members) const {
    return payload / (gathers() && !scatters() ? members : 1);
  }
  constexpr std::size_t bytes_after(std::size_t payload, std::size_t members) const {
    return payload / (scatters() && !gathers() ? members : 1);
  }
  /// True if a side of so many bytes may become one of so many others.
  constexpr bool fits(std::size_t before, std::size_t after, std::size_t members) const {
    const std::size_t shares = shares_before(members), others = shares_after(members);
    return before % shares == 0 && after % others == 0 && before / shares == after / others;
  }

  /// What each member sends, and receives, of every byte of the payload. A tree sends `passes`.
  constexpr double sent_share(double members) const { return passes * (members - 1) / members; }
  /// How many latencies follow one another where links do not differ.
  double steps(double members) const;
};

/// In the order in which people list them: in the files of machines, and in tables of benchmarks.
inline constexpr auto collectives = std::to_array<CollectiveFacts>({
    {.kind = Collective::all_reduce,
     .name = "all_reduce",
     .moved = "reduced",
     .takes = Holding::term,
     .gives = Holding::whole,
     .path = Path::ring_or_tree,
     .passes = 2},
    {.kind = Collective::all_gather,
     .name = "all_gather",
     .moved = "gathered",
     .takes = Holding::share,
     .gives = Holding::whole,
     .path = Path::ring,
     .passes = 1},
    {.kind = Collective::reduce_scatter,
     .name = "reduce_scatter",
     .moved = "scattered",
     .takes = Holding::term,
     .gives = Holding::share,
     .path = Path::ring,
     .passes = 1},
    {.kind = Collective::all_to_all,
     .name = "all_to_all",
     .moved = "exchanged",
     .takes = Holding::share,
     .gives = Holding::share,
     .path = Path::direct,
     .passes = 1},
});

constexpr const CollectiveFacts& facts_of(Collective kind) {
  for (const CollectiveFacts& row : collectives)
    if (row.kind == kind) return row;
  return collectives.front();  // not reached: a static_assert of collective.cpp
}

/// "all_reduce".
constexpr std::string_view to_string(Collective kind) {
  return facts_of(kind).name;
}

/// The collective of that name.
std::optional<Collective> find_collective(std::string_view name);

/// What ranks exchange: a collective, or a message from one of two ranks to the other.
using ExchangeKind = std::optional<Collective>;
inline constexpr ExchangeKind message_of_two = std::nullopt;

/// All kinds, in the order of the rows; messages last.
std::span<const ExchangeKind> exchange_kinds();
/// "all_reduce", ..., "send".
std::string_view to_string(ExchangeKind kind);

}  // namespace fourfold
