#include "reshard/unit_tasks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace fourfold::reshard {
namespace {

struct Tile {
  Box box;
  std::vector<Rank> ranks;
};

/// The boxes that are not empty, each once, in the order of the first rank that has it.
std::vector<Tile> tiles_of(const Placement& placement) {
  std::vector<Tile> tiles;
  std::map<Box, std::size_t> known;
  for (std::size_t position = 0; position < placement.boxes.size(); ++position) {
    const Box& box = placement.boxes[position];
    if (elements(box) == 0) continue;
    const auto [at, is_new] = known.emplace(box, tiles.size());
    if (is_new) tiles.push_back({box, {}});
    tiles[at->second].ranks.push_back(placement.ranks[position]);
  }
  for (Tile& tile : tiles) std::ranges::sort(tile.ranks);
  return tiles;
}

/// Tiles by the number of their range in each dim, so that those that meet a box are found without
/// a look at the others.
class TileIndex {
 public:
  explicit TileIndex(const std::vector<Tile>& tiles) {
    if (tiles.empty()) return;
    dims_.resize(tiles.front().box.size());
    for (const Tile& tile : tiles)
      for (std::size_t dim = 0; dim < dims_.size(); ++dim)
        dims_[dim].ranges.emplace(tile.box[dim], 0);
    for (Dim& dim : dims_) {
      std::size_t number = 0;
      for (auto& [range, value] : dim.ranges) value = number++;
    }
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      std::vector<std::size_t> key;
      for (std::size_t dim = 0; dim < dims_.size(); ++dim)
        key.push_back(dims_[dim].ranges.at(tiles[i].box[dim]));
      tiles_.emplace(std::move(key), i);
    }
  }

  /// The numbers of the tiles that share an element with the box, ascending.
  std::vector<std::size_t> meeting(const Box& box) {
    std::vector<std::vector<std::size_t>> choices;
    for (std::size_t dim = 0; dim < dims_.size(); ++dim)
      choices.push_back(dims_[dim].meeting(box[dim]));
    std::vector<std::size_t> found, key(dims_.size());
    add(choices, 0, key, found);
    std::ranges::sort(found);
    return found;
  }

 private:
  struct Dim {
    std::map<Range, std::size_t> ranges;
    std::map<Range, std::vector<std::size_t>> known;

    const std::vector<std::size_t>& meeting(const Range& range) {
      const auto [at, is_new] = known.emplace(range, std::vector<std::size_t>());
      if (is_new)
        for (const auto& [other, number] : ranges)
          if (other.begin < range.end && range.begin < other.end) at->second.push_back(number);
      return at->second;
    }
  };

  void add(const std::vector<std::vector<std::size_t>>& choices, std::size_t dim,
           std::vector<std::size_t>& key, std::vector<std::size_t>& found) const {
    if (dim == choices.size()) {
      if (const auto at = tiles_.find(key); at != tiles_.end()) found.push_back(at->second);
      return;
    }
    for (const std::size_t number : choices[dim]) {
      key[dim] = number;
      add(choices, dim + 1, key, found);
    }
  }

  std::vector<Dim> dims_;
  std::map<std::vector<std::size_t>, std::size_t> tiles_;
};

}  // namespace

std::vector<UnitTask> unit_tasks(const Placement& from, const Placement& to) {
  require(from.shape == to.shape, "both placements are of one tensor");
  const std::vector<Tile> sources = tiles_of(from), destinations = tiles_of(to);
  TileIndex index(destinations);
  std::vector<UnitTask> tasks;
  for (const Tile& source : sources)
    for (const std::size_t number : index.meeting(source.box)) {
      const Tile& destination = destinations[number];
      tasks.push_back({intersection(source.box, destination.box), source.ranks, destination.ranks});
    }
  return tasks;
}

}  // namespace fourfold::reshard
