// Depth-first search over senders and orders, with pruning. Zhuang et al. 2023, section 3.2.
#pragma once

#include "reshard/schedule.h"

namespace fourfold::reshard {

/// The best schedule that the search finds until it has seen all or has taken its steps. Where it
/// has seen all, none is shorter.
/// Only orders whose tasks start one after another are looked at (of equal starts: by number),
/// which is enough: any schedule whose tasks start as early as their ways allow, sorted by starts,
/// is such an order of itself. Branches end where the bound of what is left reaches the best so
/// far, or `known_s`, a makespan that another search has found; the order is empty where nothing is
/// better than that.
Schedule search_depth_first(std::span<const HostTask> tasks, const SearchLimits& limits,
                            std::optional<double> known_s);

}  // namespace fourfold::reshard
