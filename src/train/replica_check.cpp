#include "train/replica_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"

namespace fourfold::train {
namespace {

/// A window of a tensor, and what one rank holds of it.
struct Entry {
  std::uint64_t window = 0, digest = 0;
};

/// What one window is for each rank that holds it.
using Holders = std::vector<std::pair<std::size_t, std::uint64_t>>;  // rank, digest

/// True if some axis of the mesh, of several ranks, cuts no dim of it.
bool has_replicas(const program::Program& program, const program::Buffer& buffer) {
  const Mesh& mesh = program.meshes[buffer.sharding.mesh.index()];
  std::int64_t windows = 1, ranks = 1;
  for (const auto& axis : mesh.axes) ranks *= axis.size;
  for (const auto& dim : buffer.sharding.dims)
    for (const auto& cut : dim) windows *= mesh.axes[cut.axis.index()].size;
  return windows < ranks;
}

std::uint64_t window_id(const checkpoint::StateTensor& tensor) {
  const std::string text = tensor.buffer->name + checkpoint::to_string(tensor.held);
  return hash64(std::as_bytes(std::span(text)));
}

/// By window, over all ranks.
std::map<std::uint64_t, Holders> gather(comm::World& world, const std::vector<Entry>& own) {
  const auto bytes = std::as_bytes(std::span(own));
  const std::vector<std::string> all =
      world.all_gather(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::map<std::uint64_t, Holders> windows;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (std::size_t at = 0; at + sizeof(Entry) <= all[rank].size(); at += sizeof(Entry)) {
      Entry entry;
      std::memcpy(&entry, all[rank].data() + at, sizeof entry);
      windows[entry.window].emplace_back(rank, entry.digest);
    }
  return windows;
}

/// Who differs: the holders in the minority, or all of them where there is no majority.
struct Odd {
  std::vector<std::size_t> ranks;
  bool is_minority = false;
  auto operator<=>(const Odd&) const = default;
};

Odd odd_ones(const Holders& holders) {
  std::map<std::uint64_t, std::size_t> votes;
  for (const auto& [rank, digest] : holders) ++votes[digest];
  if (votes.size() < 2) return {};
  const auto most =
      std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  Odd odd{{}, 2 * most->second > holders.size()};
  for (const auto& [rank, digest] : holders)
    if (!odd.is_minority || digest != most->first) odd.ranks.push_back(rank);
  return odd;
}

std::string in_words(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += format("{}{}", i == 0 ? " " : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  return text;
}

}  // namespace

ReplicaCheck::ReplicaCheck(const program::Program& program, checkpoint::BufferReads bytes,
                           comm::World& world)
    : world_(world), bytes_(std::move(bytes)) {
  for (checkpoint::StateTensor& tensor : checkpoint::state_of(program))
    if (has_replicas(program, *tensor.buffer) && !tensor.held.is_empty())
      tensors_.push_back(std::move(tensor));
}

std::optional<std::string> ReplicaCheck::find_difference() const {
  std::vector<Entry> own;
  for (const checkpoint::StateTensor& tensor : tensors_) {
    const program::Buffer& buffer = *tensor.buffer;
    own.push_back(
        {window_id(tensor), checkpoint::digest_of(buffer.name, buffer.dtype, buffer.global,
                                                  tensor.held, tensor.memory, bytes_(buffer))});
  }
  std::map<Odd, std::vector<std::uint64_t>> found;  // and the windows in which they differ
  for (const auto& [window, holders] : gather(world_, own))
    if (Odd odd = odd_ones(holders); !odd.ranks.empty()) found[std::move(odd)].push_back(window);
  if (found.empty()) return std::nullopt;

  // One of the ranks that are told has a name for the window.
  const auto& [odd, windows] = *found.begin();
  std::string name;
  for (const checkpoint::StateTensor& tensor : tensors_)
    if (window_id(tensor) == windows.front())
      name = tensor.buffer->name + checkpoint::to_string(tensor.held);
  name = world_.all_gather(name)[odd.ranks.front()];
  return format(
      "{} {} other bits than {} in {} tensor{}, first in {}{}", in_words(odd.ranks),
      odd.ranks.size() == 1 ? "holds" : "hold",
      odd.is_minority ? "the other replicas" : "each other", windows.size(),
      windows.size() == 1 ? "" : "s", name,
      found.size() > 1 ? format("; {} more groups of ranks differ", found.size() - 1) : "");
}

}  // namespace fourfold::train
