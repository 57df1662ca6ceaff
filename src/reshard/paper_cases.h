// The micro-benchmarks of Zhuang et al. 2023, Table 2 and Figure 5, as values.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reshard/links.h"
#include "reshard/placement.h"

namespace fourfold::reshard {

/// A tensor (1024, 1024, 512) between two meshes whose rows are hosts; in case 6 (1026, 1024, 512).
struct PaperCase {
  int number = 1;
  std::string_view from, to;  // specs
  MeshShape from_mesh, to_mesh;
  bool is_padded = false;  // its first dim, so that halves and thirds are even
};
std::span<const PaperCase> paper_cases();

/// The tensor of a case of 4-byte elements, its longest dims halved until it has at most so many
/// bytes: all of it where there are 2 GiB. The first dim of case 6 is then rounded up to what two
/// and three hosts divide. Requires bytes for 8 elements in each dim.
Shape shape_of(const PaperCase& paper_case, std::int64_t most_bytes);
inline constexpr std::int64_t full_bytes = std::int64_t{1} << 32;  // enough for all of any case

/// A pair of meshes, the ranks of the first before those of the second, each row on a host of its
/// own.
struct MeshPair {
  Placement from, to;
  std::vector<HostId> host_of;  // by rank
};
MeshPair place_pair(const Shape& shape, std::string_view from_spec, MeshShape from_mesh,
                    std::string_view to_spec, MeshShape to_mesh);

}  // namespace fourfold::reshard
