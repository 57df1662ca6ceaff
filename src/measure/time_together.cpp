#include "measure/time_together.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "measure/best_rate.h"

namespace fourfold::measure {
namespace {

constexpr double round_s = 2e-4;  // long beside a barrier of threads
constexpr double least_rounds = 3, most_rounds = 400, most_calls = 1000;

/// The time of so many calls, on this rank.
double time_calls(comm::World& world, int calls, const std::function<void()>& body,
                  const std::function<void()>& settle) {
  world.barrier();
  const double begin = now_s();
  for (int call = 0; call < calls; ++call) body();
  settle();
  return (now_s() - begin) / calls;
}

}  // namespace

Timing time_together(comm::World& world, double seconds, const std::function<void()>& body,
                     const std::function<void()>& settle) {
  body();
  settle();
  std::vector<double> first = {time_calls(world, 1, body, settle)};
  world.all_reduce(first, Reduction::max);
  const double call_s = std::max(first[0], 1e-9);
  const int calls = static_cast<int>(std::clamp(std::ceil(round_s / call_s), 1., most_calls));
  const auto rounds =
      static_cast<std::size_t>(std::clamp(seconds / (calls * call_s), least_rounds, most_rounds));
  time_calls(world, calls, body, settle);
  std::vector<double> times;
  while (times.size() < rounds) times.push_back(time_calls(world, calls, body, settle));
  world.all_reduce(times, Reduction::max);
  std::sort(times.begin(), times.end());
  return {times[rounds / 10], times[rounds / 2],
          std::accumulate(times.begin(), times.end(), 0.) / static_cast<double>(rounds)};
}

}  // namespace fourfold::measure
