#include "measure/reshard_bench.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "comm/threads.h"
#include "measure/box_memory.h"
#include "support/long_run.h"
#include "unit/reshard/random_pairs.h"

namespace fourfold::measure {
namespace {

using reshard::MeshPair;
using reshard::Strategy;
using reshard::Turns;

/// Every strategy in one job of rank threads: all elements are there, and the bytes are the plan's.
void expect_exact(const MeshPair& pair, const std::string& words) {
  comm::ThreadJob job(pair.host_of.size());
  job.run([&](comm::World& world) {
    for (const std::string_view name : reshard::strategy_names()) {
      reshard::ReshardOptions options;
      options.strategy = reshard::parse_strategy(name).value();
      options.links = {{1e-6, 1e9}, {1e-7, 1e10}};
      options.limits.steps = 1000;
      const auto plan = make_plan(pair.from, pair.to, pair.host_of, options);
      for (const Turns turns : {Turns::free, Turns::kept}) {
        const ReshardTimes times =
            measure_reshard(world, pair.from, pair.to, pair.host_of, plan, turns, 0);
        if (world.rank().index() > 0) continue;
        if (options.strategy != Strategy::signal) {
          EXPECT_EQ(times.wrong_elements, 0) << words << " by " << name;
        }
        if (turns == Turns::free) {
          EXPECT_EQ(times.bytes_between_hosts, plan.bytes_between_hosts) << words << " by " << name;
        }
      }
    }
  });
}

TEST(ReshardBench, moves_every_element_between_rank_threads_in_the_nine_cases) {
  for (const reshard::PaperCase& one : reshard::paper_cases())
    expect_exact(
        reshard::place_pair(shape_of(one, 16384), one.from, one.from_mesh, one.to, one.to_mesh),
        "case " + std::to_string(one.number));
}

TEST(ReshardBench, moves_every_element_between_random_meshes) {
  const std::uint64_t count = is_long_run() ? 1000 : 30;
  for (std::uint64_t number = 0; number < count; ++number) {
    const reshard::RandomPair made = reshard::random_pair(number);
    expect_exact(made.pair, made.words);
  }
}

TEST(ReshardBench, sees_an_element_that_does_not_come) {
  const MeshPair pair = reshard::place_pair({4, 4}, "RR", {1, 1}, "S0R", {2, 1});
  comm::ThreadJob job(3);
  job.run([&](comm::World& world) {
    reshard::ReshardPlan plan = make_plan(pair.from, pair.to, pair.host_of, {});
    plan.transfers[1].box[1].end = 3;  // two elements of the second row pair are left out
    const ReshardTimes times =
        measure_reshard(world, pair.from, pair.to, pair.host_of, plan, Turns::free, 0);
    EXPECT_EQ(times.wrong_elements, 2);
  });
}

TEST(BoxMemory, numbers_elements_through_the_tensor) {
  BoxMemory memory({{1, 3}, {2, 4}}, {4, 5});
  EXPECT_EQ(memory.wrong_elements(), 4);
  memory.number();
  EXPECT_EQ(memory.wrong_elements(), 0);
  std::vector<std::byte> bytes;
  memory.read({{1, 3}, {2, 3}}, bytes);
  std::uint32_t words[2];
  std::memcpy(words, bytes.data(), sizeof words);
  EXPECT_EQ(words[0], 7U);
  EXPECT_EQ(words[1], 12U);
  EXPECT_TRUE(memory.run_of({{1, 2}, {2, 4}}));
  EXPECT_FALSE(memory.run_of({{1, 3}, {2, 3}}));
  memory.forget();
  EXPECT_EQ(memory.wrong_elements(), 4);
}

}  // namespace
}  // namespace fourfold::measure
