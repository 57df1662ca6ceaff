// What ranks say of themselves, as text and over the ranks of a job that has no GPU.
#include "measure/rank_facts.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/mpi.h"
#include "comm/threads.h"

namespace fourfold::measure {
namespace {

TEST(RankFacts, read_back_as_they_were) {
  RankFacts facts{"host \"a\"", {0, 2, 3}, "Open MPI v4.1.4", true, "start with\nless"};
  facts.why_no_gpu = "none";
  EXPECT_EQ(rank_facts_of_text(to_text(facts)), facts);
  facts.why_no_gpu = "";
  facts.between = "NCCL";
  facts.nccl = "2.28.9";
  facts.ways = {"AWS Libfabric", {"P2P/IPC", "NET/AWS Libfabric"}};
  facts.gpu = RankGpu{1,
                      4,
                      "0000:17:00",
                      "NVIDIA H200",
                      std::nullopt,
                      {{machine::GpuWay::nvlink, true}, {machine::GpuWay::system, false}},
                      "GPU-0123456789abcdef"};
  EXPECT_EQ(rank_facts_of_text(to_text(facts)), facts);
  facts.gpu->numa_node = 1;
  EXPECT_EQ(rank_facts_of_text(to_text(facts)), facts);
  EXPECT_EQ(to_text(facts).find('\n'), std::string::npos) << "one line";
}

TEST(RankFacts, all_ranks_learn_what_each_has_found) {
  std::vector<std::vector<RankFacts>> seen(3);
  comm::ThreadJob(3).run(
      [&](comm::World& world) { seen[world.rank().index()] = look_at_ranks(world, "/nowhere"); });
  for (const std::vector<RankFacts>& facts : seen) {
    ASSERT_EQ(facts.size(), 3U);
    EXPECT_EQ(facts, seen[0]);
    EXPECT_FALSE(facts[2].host.empty());
    EXPECT_FALSE(facts[2].cores.empty());
    EXPECT_EQ(facts[2].mpi, comm::mpi_library());
    EXPECT_FALSE(facts[2].mpi_takes_device_memory) << "MPI has not started";
    EXPECT_EQ(facts[2].gpu.has_value(), facts[2].why_no_gpu.empty());
  }
}

}  // namespace
}  // namespace fourfold::measure
