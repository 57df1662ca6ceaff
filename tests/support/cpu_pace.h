// How fast this machine is at the moment, for limits on CPU time that hold on any machine. Header
// only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <map>
#include <string>
#include <vector>

namespace fourfold::test {

/// CPU seconds of all threads of this process, or of this thread alone.
inline double cpu_seconds(clockid_t of = CLOCK_PROCESS_CPUTIME_ID) {
  timespec time{};
  clock_gettime(of, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// CPU seconds that one core needs at this moment for a fixed piece of work of the compiler's kind:
/// small vectors that are allocated, maps that are searched by text, a few megabytes that are
/// visited in no order. A quarter of a second on a Zen 5, built without optimization as tests are;
/// jobs on the other half of a core may double it.
inline double seconds_of_a_unit() {
  const double start_s = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  std::uint64_t state = 1;
  const auto next = [&] {
    return (state = state * 6364136223846793005U + 1442695040888963407U) >> 33U;
  };
  std::size_t found = 0;
  for (int round = 0; round < 5; ++round) {
    std::map<std::string, std::vector<std::int64_t>> rows;
    for (int i = 0; i < 20000; ++i) {
      const auto size = static_cast<std::int64_t>(next() % 8);
      rows["value." + std::to_string(next() % 50000)].assign(static_cast<std::size_t>(size), size);
    }
    for (int i = 0; i < 40000; ++i) found += rows.count("value." + std::to_string(next() % 50000));
  }
  // Somebody reads the count, so the compiler keeps the work.
  return found == 0 ? 0 : cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - start_s;
}

/// CPU time of some work in units of this machine's own pace, taken before and after the work.
class CpuWork {
 public:
  CpuWork() : before_s_(seconds_of_a_unit()), start_s_(cpu_seconds()) {}

  double seconds() const { return cpu_seconds() - start_s_; }
  /// The slower of two paces counts, since other jobs come and go.
  double units() const {
    const double used_s = seconds();
    return used_s / std::max(before_s_, seconds_of_a_unit());
  }

 private:
  double before_s_, start_s_;
};

}  // namespace fourfold::test
