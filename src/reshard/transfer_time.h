// The price of a transfer on the host-NIC model: links.h applied to its ranks.
#pragma once

#include "reshard/reshard_plan.h"

namespace fourfold::reshard {

/// How many messages of a chain pass between hosts, and inside them.
Hops hops_of(const Transfer& transfer, std::span<const HostId> host_of);

/// best_chunks of a chain.
std::int64_t chunks_of_chain(const Transfer& transfer, std::int64_t element_bytes,
                             std::span<const HostId> host_of, const Links& links);

/// How long a transfer takes that has its hosts for itself. With shares the sender's port passes
/// one message after another, and then the groups gather side by side.
double transfer_seconds(const Transfer& transfer, std::int64_t element_bytes,
                        std::span<const HostId> host_of, const Links& links);

}  // namespace fourfold::reshard
