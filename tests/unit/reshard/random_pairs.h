// Pairs of placements that chance makes: shapes, specs and meshes of all kinds, hosts in part
// shared.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "reshard/paper_cases.h"

namespace fourfold::reshard {

struct RandomPair {
  MeshPair pair;
  std::string words;  // what it is
};

inline RandomPair random_pair(std::uint64_t number) {
  const Random random(11, random_stream("random_pairs"));
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t bound) {
    return random.below(bound, drawn++, static_cast<std::uint32_t>(number));
  };
  Shape shape;
  for (std::uint64_t dims = 1 + below(4); dims > 0; --dims)
    shape.push_back(static_cast<std::int64_t>(1 + below(7)));
  const auto mesh = [&] {
    return MeshShape{static_cast<std::int64_t>(1 + below(4)),
                     static_cast<std::int64_t>(1 + below(4))};
  };
  const auto spec = [&] {
    std::vector<std::string> cuts(shape.rank());
    // Each dim of the mesh cuts one dim of the tensor, or none.
    std::vector<std::string> axes{"0", "1"};
    if (below(2) == 0) std::swap(axes[0], axes[1]);
    for (const std::string& axis : axes)
      if (const std::uint64_t dim = below(shape.rank() + 1); dim < shape.rank()) cuts[dim] += axis;
    std::string text;
    for (const std::string& cut : cuts) text += cut.empty() ? "R" : "S" + cut;
    return text;
  };
  const MeshShape from = mesh(), to = mesh();
  const std::string from_spec = spec(), to_spec = spec();
  RandomPair made{place_pair(shape, from_spec, from, to_spec, to),
                  to_string(shape) + " " + from_spec + " to " + to_spec};
  // A third of them has hosts of both meshes, a sixth has ranks of both.
  const std::uint64_t kind = below(6);
  if (kind < 2)
    for (HostId& host : made.pair.host_of) host = HostId(host.index() / (1 + kind) / 2);
  if (kind == 2) {
    const std::size_t shared =
        1 + below(std::min(made.pair.from.ranks.size(), made.pair.to.ranks.size()));
    made.pair.to.ranks =
        Ranks(Rank(made.pair.from.ranks.size() - shared), made.pair.to.ranks.size());
  }
  return made;
}

}  // namespace fourfold::reshard
