// Jobs made up from seeds: they have what is asked for, and the rules find nothing in them.
#include "verify/random_jobs.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "support/long_run.h"
#include "verify/faults.h"
#include "verify/verify_job.h"

namespace fourfold::test {
namespace {

TEST(RandomJobs, are_what_their_seeds_say) {
  const DrawnJob one = draw_job(5), again = draw_job(5), other = draw_job(6);
  EXPECT_EQ(one.job, again.job);
  EXPECT_EQ(one.name, again.name);
  EXPECT_NE(one.name, other.name);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const DrawnJob drawn = draw_job(seed, {.most_ranks = 6, .is_exact = true});
    EXPECT_LE(drawn.job.ranks.size(), 6U);
    EXPECT_EQ(drawn.setup.plan.compute, DType::f64);
  }
}

TEST(RandomJobs, have_specifications_with_the_same_programs) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const DrawnJob drawn = draw_job(seed);
    const graph::ModelGraphs serial = serial_graphs(drawn);
    std::set<op::ProgramKind> specified, compiled;
    for (const graph::Graph& graph : serial.graphs) {
      specified.insert(graph.kind);
      EXPECT_EQ(graph.mesh, MeshId()) << "one mesh";
    }
    for (const program::Bundle& bundle : drawn.job.classes)
      for (const program::Program& program : bundle.programs) compiled.insert(program.kind);
    EXPECT_EQ(specified, compiled) << seed << ": " << drawn.name;
  }
}

TEST(RandomJobs, raise_no_alarm_of_a_rule) {
  const std::uint64_t first = is_long_run() ? 1000 : 0, count = is_long_run() ? 1000 : 12;
  std::map<std::size_t, int> by_ranks;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const DrawnJob drawn = draw_job(seed);
    EXPECT_EQ(verify::all(verify::verify(drawn.job)), "") << "seed " << seed << ": " << drawn.name;
    ++by_ranks[drawn.job.ranks.size()];
  }
  std::printf("seeds %ju to %ju: no alarm; up to %zu ranks\n", std::uintmax_t{first},
              std::uintmax_t{first + count - 1}, by_ranks.rbegin()->first);
}

}  // namespace
}  // namespace fourfold::test
