// Connects all processes of a job to rank 0.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/connection.h"
#include "comm/world.h"

namespace fourfold::comm {

/// Connections by rank: on rank 0 one to each other rank, on the others one to rank 0; the rest are
/// closed. All closed, on all ranks, where some rank could not connect. `hosts` are the ranks'
/// hosts by name. All ranks call together. Errors: UserError(environment).
std::vector<Connection> connect_star(World& world, const std::vector<std::string>& hosts);

/// What rank 0 does of it: takes the calls of all other ranks, which know the key, into
/// `connections` by rank, and returns how many have come, after `patience_s` at the latest. Whoever
/// else connects, and whatever they send or do not send, keeps no rank waiting.
std::size_t accept_ranks(Listener& listener, const std::string& key, double patience_s,
                         std::vector<Connection>& connections);
/// The first words of a rank to rank 0.
Message hello_of(const std::string& key, Rank rank);

}  // namespace fourfold::comm
