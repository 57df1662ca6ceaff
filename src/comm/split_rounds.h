// Which communicators all ranks make together, and in which order, where making some takes a call
// of every rank of the job (ncclCommSplit): pure, but for one exchange of texts.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mesh.h"
#include "comm/world.h"

namespace fourfold::comm {

/// Ranks that get a communicator of their own, in their order in it.
struct Party {
  std::string name;  // without line breaks
  std::vector<Rank> members;
  auto operator<=>(const Party&) const = default;
};
/// "x of ranks 0 1".
std::string to_string(const Party& party);

/// The parties of all ranks, each once, sorted by name and members: the same list everywhere. All
/// ranks call together, each with those that it is a member of; what others list is left out.
/// Errors: UserError(ranks_disagree) in a rank that lists one that its first member does not list,
/// or that lists none where the first member lists it.
std::vector<Party> parties_of_all(World& world, std::span<const Party> own);

/// One call of all ranks: some parties, as indices, of which no two have a rank in common.
using SplitRound = std::vector<std::size_t>;

/// Every party goes into the first round in which all of its members are free: as the groups of one
/// axis of a mesh have no rank in common, they take one call. Cost: parties times rounds, and their
/// members.
std::vector<SplitRound> rounds_of(std::span<const Party> parties, std::size_t ranks);

}  // namespace fourfold::comm
