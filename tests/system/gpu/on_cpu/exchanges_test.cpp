// Exchanges between tensors on GPUs that are not there: every kind and size by way of the host, on
// memory of the right size, and what each rank of a job finds of its GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/threads.h"
#include "machine/cluster.h"
#include "measure/device_exchanges.h"
#include "measure/rank_facts.h"
#include "run/cuda/staged_world.h"
#include "show/rank_report.h"
#include "support/cli_on_cpu.h"
#include "unit/run/cuda/fake_gpu.h"

namespace fourfold::test {
namespace {

TEST(DeviceExchanges, of_every_kind_are_timed_on_a_device) {
  run::cuda::FakeGpu gpu;
  comm::ThreadJob(3).run([&](comm::World& world) {
    run::cuda::StagedWorld carries(gpu, world);
    const std::vector<std::int64_t> sizes = {1 << 8, 1 << 10, 1 << 12};
    measure::DeviceCarrier carrier(world, gpu, carries, sizes.back() + 12);
    for (const ExchangeKind kind : exchange_kinds()) {
      const measure::Exchange exchange{kind, kind ? 3 : 2, 1};
      const measure::ExchangeTimes times =
          measure::measure_exchange(world, carrier, exchange, sizes, 0.001);
      ASSERT_EQ(times.samples.size(), 3U) << to_string(kind);
      for (const measure::TimedBytes& sample : times.samples) {
        EXPECT_GT(sample.seconds, 0) << to_string(kind);
        EXPECT_GT(sample.bytes, 0.9 * (1 << 8)) << to_string(kind);
      }
    }
  });
  EXPECT_EQ(gpu.live(), 0);
}

TEST(DeviceExchanges, larger_than_was_said_are_a_fault_of_ours) {
  run::cuda::FakeGpu gpu;
  EXPECT_THROW(comm::ThreadJob(2).run([&](comm::World& world) {
    run::cuda::StagedWorld carries(gpu, world);
    measure::DeviceCarrier carrier(world, gpu, carries, 1 << 8);
    measure::measure_exchange(world, carrier, {Collective::all_reduce, 2, 1}, {1 << 10}, 0.001);
  }),
               InternalError);
}

class RanksOfGpus : public testing::Test {
 protected:
  ~RanksOfGpus() override { fake_cuda() = {}; }

  /// What rank 0 learns.
  static std::vector<measure::RankFacts> look(std::size_t ranks) {
    std::vector<measure::RankFacts> facts;
    comm::ThreadJob(ranks).run([&](comm::World& world) {
      std::vector<measure::RankFacts> all = measure::look_at_ranks(world, "/nowhere");
      if (world.rank().index() == 0) facts = std::move(all);
    });
    return facts;
  }
};

TEST_F(RanksOfGpus, each_takes_the_one_of_its_number_and_finds_its_ways_to_the_others) {
  fake_cuda().devices = 4;
  const std::vector<measure::RankFacts> facts = look(3);
  ASSERT_EQ(facts.size(), 3U);
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    ASSERT_TRUE(facts[rank].gpu.has_value());
    EXPECT_EQ(facts[rank].gpu->index, static_cast<int>(rank));
    EXPECT_EQ(facts[rank].gpu->visible, 4);
    EXPECT_EQ(facts[rank].gpu->links.size(), 3U);
    EXPECT_EQ(facts[rank].gpu->links[rank], machine::GpuLink{});
  }
  EXPECT_EQ(facts[0].gpu->links[1], (machine::GpuLink{machine::GpuWay::nvlink, true}));
  EXPECT_EQ(facts[0].gpu->links[2], (machine::GpuLink{machine::GpuWay::system, false}));
  const std::string table = show::rank_table(facts);
  EXPECT_NE(table.find("    1    NVL      =  (SYS)\n"), std::string::npos) << table;
  EXPECT_NE(table.find("2 of 4, 0000:02:00, a fake GPU"), std::string::npos) << table;
}

TEST_F(RanksOfGpus, that_share_the_only_one_exchange_by_way_of_the_host) {
  const std::vector<measure::RankFacts> facts = look(2);
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[1].gpu->bus_id, facts[0].gpu->bus_id);
  EXPECT_EQ(facts[1].between, "by way of the host (rank 0: it shares its GPU with another rank)");
}

TEST_F(RanksOfGpus, a_rank_whose_gpu_cannot_be_used_ends_the_job_with_its_name) {
  fake_cuda().devices = 2;
  try {
    look(3);
    ADD_FAILURE() << "2 GPUs are too few";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    const std::string text = error.what();
    EXPECT_TRUE(text.find(" on ") != text.npos && text.starts_with("rank ")) << text;
    EXPECT_NE(text.find(": this host has 2 GPUs and 3 ranks; start as many ranks"), text.npos)
        << text;
  }
}

}  // namespace
}  // namespace fourfold::test
