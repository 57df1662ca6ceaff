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
                                          {6, "S0RR", "S0RR", {2, 4}, {3, 4}, true},
                                          {7, "S1RR", "RRR", {1, 4}, {2, 4}},
                                          {8, "RRR", "RRR", {2, 3}, {3, 2}},
                                          {9, "RS0R", "RRS0", {2, 4}, {2, 4}}}};

}  // namespace

std::span<const PaperCase> paper_cases() {
  return cases;
}

Shape shape_of(const PaperCase& paper_case, std::int64_t most_bytes) {
  constexpr std::int64_t element_bytes = 4, ranks = 8, even = 6;  // halves and thirds
  require(most_bytes >= ranks * ranks * ranks * element_bytes, "each rank has elements of a case");
  Shape shape{1024, 1024, 512};
  while (shape.elements() * element_bytes > most_bytes) {
    std::size_t longest = 0;
    for (std::size_t dim = 1; dim < shape.rank(); ++dim)
      if (shape[dim] > shape[longest]) longest = dim;
    shape[longest] /= 2;
  }
  if (paper_case.is_padded) shape[0] = (shape[0] + even - 1) / even * even;
  return shape;
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
