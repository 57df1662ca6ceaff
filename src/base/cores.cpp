#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>

#include "base/format.h"
#include "base/host_facts.h"

namespace fourfold {
namespace {

/// A number that /sys tells of a logical CPU.
std::optional<int> topology_of(int core, const char* what) {
  const std::optional<std::string> line =
      first_line(format("/sys/devices/system/cpu/cpu{}/topology/{}", core, what));
  int value = 0;
  if (!line || std::from_chars(line->data(), line->data() + line->size(), value).ec != std::errc())
    return std::nullopt;
  return value;
}

}  // namespace

std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  return cores;
}

int cores_within(std::size_t cores, std::optional<double> limit) {
  const auto all = std::max(1.0, static_cast<double>(cores));
  return static_cast<int>(limit ? std::clamp(std::floor(*limit), 1.0, all) : all);
}

int num_usable_cores() {
  static const std::optional<double> limit = cpu_limit();
  return cores_within(usable_cores().size(), limit);
}

std::vector<int> in_order_of_places(std::vector<int> cores) {
  struct Place {
    int socket, core, number;
  };
  std::vector<Place> places;
  for (const int core : cores) {
    const std::optional<int> socket = topology_of(core, "physical_package_id");
    const std::optional<int> physical = topology_of(core, "core_id");
    if (!socket || !physical) return cores;
    places.push_back({*socket, *physical, core});
  }
  std::ranges::sort(places, {}, [](const Place& place) {
    return std::tuple(place.socket, place.core, place.number);
  });
  std::ranges::transform(places, cores.begin(), &Place::number);
  return cores;
}

std::span<const int> share_of_cores(std::span<const int> cores, std::size_t place,
                                    std::size_t count) {
  if (count > cores.size()) {
    if (cores.empty() || count % cores.size() != 0) return {};
    return cores.subspan(place * cores.size() / count, 1);
  }
  const std::size_t first = place * cores.size() / count;
  return cores.subspan(first, (place + 1) * cores.size() / count - first);
}

bool keep_to_cores(std::span<const int> cores) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int core : cores) {
    if (core < 0 || core >= CPU_SETSIZE) return false;
    CPU_SET(core, &mask);
  }
  return sched_setaffinity(0, sizeof mask, &mask) == 0;
}

}  // namespace fourfold
