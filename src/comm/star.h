// Connects all processes of a job to rank 0.
#pragma once

#include <string>
#include <vector>

#include "comm/connection.h"
#include "comm/world.h"

namespace fourfold::comm {

/// Connections by rank: on rank 0 one to each other rank, on the others one to rank 0; the rest are
/// closed. All closed, on all ranks, where some rank could not connect. `hosts` are the ranks'
/// hosts by name. All ranks call together. Errors: UserError(environment).
std::vector<Connection> connect_star(World& world, const std::vector<std::string>& hosts);

}  // namespace fourfold::comm
