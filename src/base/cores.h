// The cores of this host that a thread may run on, and how members of a team share them out.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace fourfold {

/// Numbers of the logical CPUs that the calling thread may run on, ascending. Empty where the
/// system does not say.
std::vector<int> usable_cores();

/// Returns how many threads `cores` cores run at once where a control group allows the time of
/// `limit` cores: a thread more would be stopped again and again, and the others wait for it. At
/// least one.
int cores_within(std::size_t cores, std::optional<double> limit);
/// The number of usable cores within the limit of the process's control group. The limit is the one
/// that was there when this was first asked for.
int num_usable_cores();

/// `cores` ordered so that the logical CPUs of one core, and the cores of one socket, follow one
/// another, as /sys tells; what it does not tell keeps its place. Cost: two small files a core.
std::vector<int> in_order_of_places(std::vector<int> cores);

/// The part of `cores` of member `place` of `count`: stretches of (nearly) equal length, or one
/// core that as many members have as every other. Empty where cores would have different numbers of
/// members: the system then shares them out better.
std::span<const int> share_of_cores(std::span<const int> cores, std::size_t place,
                                    std::size_t count);

/// From now on the calling thread, and each thread that it starts, runs on these cores alone. False
/// where the system refuses, and nothing is changed.
bool keep_to_cores(std::span<const int> cores);

}  // namespace fourfold
