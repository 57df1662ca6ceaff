// The micro-benchmarks of Zhuang et al. 2023, Table 2 and Figure 5, as values.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reshard/links.h"
#include "reshard/placement.h"

namespace fourfold::reshard {

/// A tensor between two meshes whose rows are hosts. Case 6 is padded, 1024 to 1026: its halves and
/// thirds are even.
struct PaperCase {
  int number = 1;
  std::string_view from, to;  // specs
  MeshShape from_mesh, to_mesh;
  std::int64_t first_dim = 1024;  // of the tensor of 1024 x 512 rows and columns
};
std::span<const PaperCase> paper_cases();

/// The tensor of a case with each dim divided by `scale`; the first of case 6 is rounded up to what
/// two and three hosts divide. Requires a scale that divides 512.
Shape shape_of(const PaperCase& paper_case, std::int64_t scale);

/// A pair of meshes, the ranks of the first before those of the second, each row on a host of its
/// own.
struct MeshPair {
  Placement from, to;
  std::vector<HostId> host_of;  // by rank
};
MeshPair place_pair(const Shape& shape, std::string_view from_spec, MeshShape from_mesh,
                    std::string_view to_spec, MeshShape to_mesh);

}  // namespace fourfold::reshard
