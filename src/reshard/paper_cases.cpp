#include "reshard/paper_cases.h"

#include <array>

#include "base/error.h"

namespace fourfold::reshard {
namespace {

constexpr std::array<PaperCase, 9> cases{{{1, "S0RR", "S0RR", {2, 4}, {2, 4}},
                                          {2, "RRR", "S0RR", {2, 4}, {2, 4}},
                                          {3, "RS0R", "S0RR", {2, 4}, {2, 4}},
                                          {4, "RS01R", "S01RR", {2, 4}, {2, 4}},
                                          {5, "S1RR", "S0RR", {2, 4}, {2, 4}},
                                          {6, "S0RR", "S0RR", {2, 4}, {3, 4}, 1026},
                                          {7, "S1RR", "RRR", {1, 4}, {2, 4}},
                                          {8, "RRR", "RRR", {2, 3}, {3, 2}},
                                          {9, "RS0R", "RRS0", {2, 4}, {2, 4}}}};

}  // namespace

std::span<const PaperCase> paper_cases() {
  return cases;
}

Shape shape_of(const PaperCase& paper_case, std::int64_t scale) {
  constexpr std::int64_t columns = 1024, depth = 512, even = 6;  // halves and thirds
  require(scale > 0 && depth % scale == 0, "a tensor is scaled by what divides its last dim");
  const std::int64_t first = paper_case.first_dim / scale;
  const bool is_padded = paper_case.first_dim % even == 0;
  return {is_padded ? (first + even - 1) / even * even : first, columns / scale, depth / scale};
}

MeshPair place_pair(const Shape& shape, std::string_view from_spec, MeshShape from_mesh,
                    std::string_view to_spec, MeshShape to_mesh) {
  const auto senders = static_cast<std::size_t>(from_mesh.ranks());
  const auto receivers = static_cast<std::size_t>(to_mesh.ranks());
  MeshPair pair{placement_of(shape, from_spec, from_mesh, {Rank(0), senders}),
                placement_of(shape, to_spec, to_mesh, {Rank(senders), receivers}),
                {}};
  for (std::int64_t rank = 0; rank < from_mesh.ranks(); ++rank)
    pair.host_of.emplace_back(static_cast<std::size_t>(rank / from_mesh.columns));
  for (std::int64_t rank = 0; rank < to_mesh.ranks(); ++rank)
    pair.host_of.emplace_back(static_cast<std::size_t>(from_mesh.rows + rank / to_mesh.columns));
  return pair;
}

}  // namespace fourfold::reshard
