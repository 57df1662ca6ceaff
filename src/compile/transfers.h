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
  bool operator==(const Message&) const = default;
};

/// A few bytes that every rank has go from rank j of one mesh to rank j of the other one, modulo
/// its ranks. All else is resharded as the plan says: by broadcast, each box leaves its mesh once,
/// and the ranks that want it pass it on in chunks. Edges that are alike share one plan.
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
