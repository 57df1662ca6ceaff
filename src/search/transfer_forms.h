// How long a tensor takes from the ranks of one stage to those of another, in closed form: bytes
// by the ports and links of the cluster that they pass, and the chain of hosts that a box passes
// along in chunks, t (K + A - 1) / K. Not the plan of a transfer (reshard/), nor what others have
// under way at the same time (simulate/).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "machine/cluster.h"
#include "machine/mesh_bandwidth.h"

namespace fourfold::search {

/// Ranks in a row, and the groups of those axes that cut the tensor on them; on other axes it is
/// repeated.
struct TensorOnRanks {
  std::int64_t first = 0, ranks = 1;
  std::vector<machine::AxisGroup> cuts;
};

/// Each box is sent once through a port whose ranks want it and do not have it, from senders that
/// share the boxes evenly, and passes from port to port in `chunks` messages (none: as many as are
/// best). At each level of links the busier side decides, over all levels the slowest.
/// Cost: linear in the ranks looked at, those of one port where all ports are alike.
double transfer_seconds(const machine::Cluster& cluster, double bytes, const TensorOnRanks& from,
                        const TensorOnRanks& to, std::optional<std::int64_t> chunks);

}  // namespace fourfold::search
