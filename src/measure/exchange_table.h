// Exchanges between all ranks of a job and along the axes of a grid, by kind and size, one line
// each, beside the links of a described machine. How one of them is timed: exchanges.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.h"
#include "machine/cluster.h"
#include "measure/exchanges.h"
#include "measure/print.h"

namespace fourfold::measure {

/// The sizes of x, y, z and data, in this order; x varies fastest over ranks.
using GridSizes = std::array<std::int64_t, 4>;

/// Ranks at equal steps that exchange something, and what they are called: all of them, or those
/// that an axis of the grid joins.
struct NamedGroup {
  std::string name;
  std::int64_t ranks = 1, stride = 1;
};

/// All ranks, then each axis of more than one; an axis that joins the same ranks as another group
/// has its name there.
std::vector<NamedGroup> groups_of(std::int64_t world, const std::optional<GridSizes>& grid);

/// What is to be measured.
struct ExchangeRequest {
  std::optional<GridSizes> grid;  // none: groups of all ranks alone
  std::vector<ExchangeKind> kinds;
  std::vector<std::int64_t> sizes;          // of whole tensors, in bytes, the smallest first
  std::optional<machine::Cluster> machine;  // whose links stand beside what is measured
  double seconds = 0.1;                     // for each line
  bool is_json = false;                     // one object at the end in place of lines
};

/// All ranks call together, each with its carrier, which `carried_by` names; the first one prints.
/// Requires a grid of as many ranks as there are.
void measure_exchanges(comm::World& world, Carrier& carrier, const std::string& carried_by,
                       const ExchangeRequest& request, const Print& print);

}  // namespace fourfold::measure
