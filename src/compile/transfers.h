// Who sends whom what, for every edge between the meshes of a plan: the lowering of reshard/ to
// messages of bytes. Not on which stream, and not when.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plan/plan.h"
#include "reshard/slices.h"

namespace fourfold::compile {

/// What one rank sends or receives at once, as bytes of its part of the value.
struct Message {
  bool sends = false;
  Rank peer;
  reshard::Slice slice;
  bool is_turn = false;  // nothing of the value: the peer, on the same host, may go on
  bool operator==(const Message&) const = default;
};

/// What messages are told apart by: the edge, and turns of it by another number.
std::int64_t tag_of(std::size_t edge, bool is_turn, const plan::Plan& plan);
struct TaggedEdge {
  std::size_t edge = 0;
  bool is_turn = false;
};
TaggedEdge edge_of_tag(std::int64_t tag, const plan::Plan& plan);

/// A few bytes that every rank has go from rank j of one mesh to rank j of the other one, modulo
/// its ranks. All else is resharded as the plan says: by broadcast, each box leaves its mesh once,
/// and the ranks that want it pass it on in chunks. Ranks of one host then take turns
/// (reshard::Turns::kept) where transfers run beside computation and the boxes are of ranks that
/// have different samples alone: a box has the port to itself, and a device is busy with it for a
/// part of the time. The other strategies are those that broadcast is measured against, and take
/// none. Edges that are alike share one plan.
class Transfers {
 public:
  explicit Transfers(const plan::Plan& plan);

  /// The messages of a rank for an edge, in the order in which it goes through them.
  const std::vector<Message>& messages(std::size_t edge, Rank rank) const;

 private:
  using ByRank = std::vector<std::vector<Message>>;
  std::vector<std::shared_ptr<const ByRank>> edges_;
};

}  // namespace fourfold::compile
