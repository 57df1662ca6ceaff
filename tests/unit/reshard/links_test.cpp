#include "reshard/links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace fourfold::reshard {
namespace {

/// Ports of 10 Gbit/s; nothing takes time inside a host.
Links ports(double latency_s) {
  return {{latency_s, 1.25e9}, {}};
}

TEST(Chain, takes_one_step_for_each_chunk_and_each_further_host) {
  // One second of bytes: (K + A - 1) / K.
  EXPECT_DOUBLE_EQ(chain_seconds(1.25e9, 100, {3, 5}, ports(0)), 1.02);
  EXPECT_DOUBLE_EQ(chain_seconds(1.25e9, 1, {4, 0}, ports(0)), 4);
  EXPECT_DOUBLE_EQ(chain_seconds(1.25e9, 10, {2, 0}, ports(0.01)), 11 * 0.11);
  // Where links inside are the slower ones, they set the pace.
  EXPECT_DOUBLE_EQ(chain_seconds(10, 10, {1, 2}, {{0, 10}, {0, 1}}), 0.1 + 2 + 9);
}

TEST(Chain, has_chunks_that_are_best_by_trying_all) {
  for (const double latency_s : {1e-6, 20e-6, 1e-3})
    for (const double bytes : {100., 1e6, 1e9})
      for (const std::int64_t hosts : {1, 2, 5, 20}) {
        const Hops hops{hosts, 3};
        double least_s = std::numeric_limits<double>::infinity();
        for (std::int64_t chunks = 1; chunks <= 1000; ++chunks)
          least_s = std::min(least_s, chain_seconds(bytes, chunks, hops, ports(latency_s)));
        const std::int64_t best = best_chunks(bytes, hops, ports(latency_s), 1000);
        EXPECT_LE(chain_seconds(bytes, best, hops, ports(latency_s)), least_s * (1 + 1e-12))
            << latency_s << " s, " << bytes << " bytes, " << hosts << " hosts";
      }
}

TEST(Chain, hides_its_latency_in_boxes_that_are_large_enough) {
  constexpr double latency_s = 20e-6;
  for (const std::int64_t hosts : {2, 3, 5}) {
    const double seconds = 1e4 * static_cast<double>(hosts - 1) * latency_s;
    const double bytes = 1.25e9 * seconds;
    const std::int64_t chunks = best_chunks(bytes, {hosts, 0}, ports(latency_s), 1'000'000);
    EXPECT_LE(chain_seconds(bytes, chunks, {hosts, 0}, ports(latency_s)),
              1.01 * chain_seconds(bytes, chunks, {hosts, 0}, ports(0)));
    // A tenth of it is too small for that.
    const std::int64_t fewer = best_chunks(bytes / 10, {hosts, 0}, ports(latency_s), 1'000'000);
    EXPECT_GT(chain_seconds(bytes / 10, fewer, {hosts, 0}, ports(latency_s)),
              1.01 * chain_seconds(bytes / 10, fewer, {hosts, 0}, ports(0)));
  }
}

TEST(Gather, is_a_ring) {
  EXPECT_DOUBLE_EQ(gather_seconds(1.25e9, 8, {0, 1.25e9}), 7. / 8);
  EXPECT_DOUBLE_EQ(gather_seconds(800, 4, {1, 200}), 3 * (1 + 1.));
  EXPECT_EQ(gather_seconds(800, 1, {1, 200}), 0);
}

}  // namespace
}  // namespace fourfold::reshard
