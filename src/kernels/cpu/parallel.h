// How kernels share work among threads: the one place that opens OpenMP regions. Cuts depend only
// on sizes and the number of threads asked for, never on timing or on how many threads OpenMP gave.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace fourfold::kernels::cpu {

/// Below this many elements a barrier (about 5 us) costs more than a second thread saves.
inline constexpr std::int64_t serial_elements = 16384;

/// Threads worth using for so many elements of work.
inline int team_size(int threads, std::int64_t elements) {
  return elements < serial_elements ? 1 : threads;
}

/// body(part) for part 0 ... parts - 1, each on a thread of its own.
template <class Body>
void for_parts(int parts, Body&& body) {
  if (parts == 1) {
    body(0);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static)
  for (int part = 0; part < parts; ++part) body(part);
}

/// Ends the threads that regions of the calling thread have left waiting for its next one. libgomp
/// keeps such a team for every thread that ever opened a region, and as soon as all teams together
/// have more threads than there are cores, no thread spins between regions any more: a step of a
/// small model then takes 1.4 times as long. Costs nothing where there is no team.
inline void end_team() {
  omp_pause_resource_all(omp_pause_soft);
}

struct Range {
  std::int64_t first, last;
};

/// How many pieces of a size `count` is cut into, the last of which may be shorter.
constexpr std::int64_t ceil_divide(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

/// The part-th of `parts` even ranges of [0, count), cut at multiples of `grain`.
inline Range range_of(int part, int parts, std::int64_t count, std::int64_t grain) {
  const std::int64_t grains = ceil_divide(count, grain);
  const auto cut = [&](int index) { return std::min(count, grains * index / parts * grain); };
  return {cut(part), cut(part + 1)};
}

/// body(first, last) for even ranges of [0, count), one a thread.
template <class Body>
void for_ranges(std::int64_t count, int threads, std::int64_t grain, Body&& body) {
  for_parts(threads, [&](int part) {
    const Range range = range_of(part, threads, count, grain);
    if (range.first < range.last) body(range.first, range.last);
  });
}

/// Ranges of elements: cut at cache lines.
inline constexpr std::int64_t element_grain = 16;

}  // namespace fourfold::kernels::cpu
