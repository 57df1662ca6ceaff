// The orders that a job demands hold in its simulation; simulations that are wrong on purpose break
// them, or what the prices say.
#include <gtest/gtest.h>

#include "simulate/links.h"
#include "support/simulated_order.h"
#include "unit/simulate/small_job.h"

namespace fourfold::simulate {
namespace {

using program::Job;
using program::Meetings;
using program::Stop;

constexpr std::size_t train = 1;

/// What is wrong with the simulation of a job by what these meetings and this cluster say.
std::vector<std::string> faults(const Job& job, const Meetings& meetings,
                                const machine::Cluster& cluster) {
  return test::faults_of_order(
      test::timed(job, train, simulate(job, train, meetings, cluster, Follow::all_ranks)), 1e-15);
}

machine::Cluster some_cluster() {
  machine::Cluster cluster = two_levels(4, 4);
  cluster.device.instruction_s = 2 * us;
  cluster.device.slowdown_beside_communication = 1.3;
  return cluster;
}

std::vector<Job> jobs() {
  std::vector<Job> jobs;
  for (const program::Grid& grid :
       {program::Grid{2, 2, 2, 2}, program::Grid{1, 4, 1, 2}, program::Grid{2, 1, 3, 1}}) {
    const auto bundles = program::grid_job(grid);
    jobs.push_back({{bundles[0]}, std::vector<program::Binding>(bundles.size())});
  }
  for (const std::int64_t width : {1, 3})
    jobs.push_back(program::job_of(program::pipeline_job(width)));
  return jobs;
}

TEST(SimulatedOrder, of_every_job_is_the_one_that_its_programs_demand) {
  for (const Job& job : jobs())
    EXPECT_EQ(faults(job, program::meetings(job, train), some_cluster()),
              std::vector<std::string>());
}

TEST(SimulatedOrder, is_broken_by_a_clock_that_leaves_out_waits) {
  for (const Job& job : jobs()) {
    Meetings mutant = program::meetings(job, train);
    for (program::Stops& stops : mutant.classes)
      for (std::vector<Stop>& stream : stops.streams)
        std::erase_if(stream, [](const Stop& stop) { return stop.kind == Stop::Kind::wait; });
    EXPECT_NE(faults(job, mutant, some_cluster()), std::vector<std::string>());
  }
}

TEST(SimulatedOrder, is_broken_by_each_wait_that_is_left_out_where_everything_waits) {
  // In this job each instruction waits for the one before it.
  const Job job = program::job_of(program::pipeline_job(1));
  const Meetings sound = program::meetings(job, train);
  std::size_t count = 0;
  for (std::size_t i = 0; i < sound.classes.size(); ++i)
    for (std::size_t stream = 0; stream < sound.classes[i].streams.size(); ++stream)
      for (std::size_t stop = 0; stop < sound.classes[i].streams[stream].size(); ++stop) {
        if (sound.classes[i].streams[stream][stop].kind != Stop::Kind::wait) continue;
        Meetings mutant = sound;
        std::vector<Stop>& list = mutant.classes[i].streams[stream];
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(stop));
        EXPECT_NE(faults(job, mutant, some_cluster()), std::vector<std::string>()) << stop;
        ++count;
      }
  EXPECT_GE(count, 30U);
}

TEST(SimulatedOrder, is_broken_by_a_collective_that_begins_before_its_last_member_comes) {
  // The last of four ranks computes before it comes.
  const Mesh mesh{"main", {{"x", 4}}, Ranks(Rank(0), 4)};
  std::vector<program::Bundle> bundles;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    program::Builder b(op::ProgramKind::train, Rank(rank), mesh, {"math", "x"});
    b.group({"x"});
    add_tensor(b, "sum", 1024);
    if (rank == 3) {
      add_product(b, "p", 1000);
      b.order("math", "x");
    }
    b.all_reduce("x", "sum");
    bundles.push_back({{b.finish(), b.finish()}, 0, 0});
  }
  const Job job = program::job_of(bundles);
  const Meetings sound = program::meetings(job, train);
  EXPECT_EQ(faults(job, sound, some_cluster()), std::vector<std::string>());
  Meetings mutant = sound;
  for (std::size_t rank = 0; rank < 4; ++rank)
    mutant.ranks[rank].groups[0] =
        mutant.communicators.number({"half", Ranks(Rank(rank / 2 * 2), 2)});
  EXPECT_NE(faults(job, mutant, some_cluster()), std::vector<std::string>());
}

TEST(SimulatedOrder, and_what_each_instruction_takes_at_least_give_away_links_that_cost_nothing) {
  machine::Cluster cluster = some_cluster();
  for (machine::Level& level : cluster.levels) level.latency_s = 0;
  cluster.device.instruction_s = 0;
  machine::Cluster free_links = cluster, fast_device = cluster;
  for (machine::Level& level : free_links.levels)
    level.link_bytes_per_s = level.port_bytes_per_s = 1e18;
  fast_device.device.memory_bytes_per_s *= 2;
  for (const Job& job : jobs()) {
    const auto too_short = [&](const machine::Cluster& on) {
      const Simulation simulation = simulate(job, op::ProgramKind::train, on, Follow::all_ranks);
      return test::too_short(test::timed(job, train, simulation), cluster);
    };
    EXPECT_EQ(too_short(cluster), "");
    EXPECT_NE(too_short(free_links), "");
    EXPECT_NE(too_short(fast_device), "");
  }
}

}  // namespace
}  // namespace fourfold::simulate
