// What people are shown of the ranks of a job, for ranks that are made up.
#include "show/rank_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/format.h"

namespace fourfold::show {
namespace {

using machine::GpuLink;
using machine::GpuWay;

measure::RankFacts plain(const std::string& host, std::vector<int> cores) {
  measure::RankFacts facts{host, std::move(cores), "Open MPI v4.1.4", false, ""};
  facts.why_no_gpu = "this program has no CUDA in it";
  return facts;
}

/// Two hosts of two GPUs that NVLink joins, over InfiniBand.
std::vector<measure::RankFacts> gpus() {
  std::vector<measure::RankFacts> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    measure::RankFacts facts{rank < 2 ? "a" : "longer", {0, 1, 2, 3}, "MPICH 4.2", true, ""};
    facts.gpu = measure::RankGpu{rank % 2, 2, format("0000:{:02x}:00", 16 * (rank % 2 + 1)),
                                 "NVIDIA H200", rank % 2};
    facts.gpu->links = {{GpuWay::nvlink, true}, {GpuWay::nvlink, true}};
    facts.gpu->links[static_cast<std::size_t>(rank % 2)] = {};
    facts.between = "NCCL";
    facts.nccl = "2.28.9";
    facts.ways = {"IB", {"P2P/CUMEM", "NET/IB"}};
    ranks.push_back(facts);
  }
  return ranks;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The only warning, with which `ranks` are not well.
std::string only_warning(const std::vector<measure::RankFacts>& ranks) {
  const std::vector<std::string> warnings = rank_warnings(ranks);
  EXPECT_EQ(warnings.size(), 1U);
  return warnings.empty() ? "" : warnings.front();
}

TEST(RankReport, slices_of_one_board_are_not_each_others_own) {
  std::vector<measure::RankFacts> ranks = gpus();
  ranks.resize(2);
  for (const std::size_t rank : {0U, 1U}) {
    ranks[rank].gpu->bus_id = "0000:10:00";
    ranks[rank].gpu->uuid = format("GPU-{}", rank);
    ranks[rank].gpu->links = {{}, {}};
  }
  EXPECT_TRUE(has(rank_table(ranks), "    0      =")) << rank_table(ranks);
  EXPECT_FALSE(has(rank_table(ranks), "=      =")) << rank_table(ranks);
  ranks[1].gpu->uuid = ranks[0].gpu->uuid;
  EXPECT_TRUE(has(rank_table(ranks), "    0      =      =")) << rank_table(ranks);
}

TEST(RankReport, without_gpus_has_hosts_cores_and_mpi) {
  const std::vector<measure::RankFacts> ranks = {plain("a", {0, 1}), plain("a", {2, 3}),
                                                 plain("b", {0})};
  EXPECT_EQ(rank_table(ranks),
            "3 ranks on 2 hosts, 1 or 2 each; Open MPI v4.1.4, which takes no memory of devices\n"
            "\n"
            " rank  host  cores  gpu\n"
            "    0  a     0-1    -\n"
            "    1  a     2-3    -\n"
            "    2  b     0      -\n"
            "no GPU: this program has no CUDA in it\n");
  EXPECT_TRUE(rank_warnings(ranks).empty()) << "nobody asked for GPUs";
}

TEST(RankReport, with_gpus_has_which_rank_takes_which_and_reaches_whom) {
  EXPECT_EQ(rank_table(gpus()),
            "4 ranks on 2 hosts, 2 each; MPICH 4.2, which takes memory of devices\n"
            "\n"
            " rank  host    cores  gpu\n"
            "    0  a       0-3    0 of 2, 0000:10:00, NVIDIA H200, NUMA node 0\n"
            "    1  a       0-3    1 of 2, 0000:20:00, NVIDIA H200, NUMA node 1\n"
            "    2  longer  0-3    0 of 2, 0000:10:00, NVIDIA H200, NUMA node 0\n"
            "    3  longer  0-3    1 of 2, 0000:20:00, NVIDIA H200, NUMA node 1\n"
            "\n"
            "peers on a, by ranks:\n"
            "           0      1\n"
            "    0      =    NVL\n"
            "    1    NVL      =\n"
            "\n"
            "peers on longer, by ranks:\n"
            "           2      3\n"
            "    2      =    NVL\n"
            "    3    NVL      =\n"
            "=: the same GPU; NVL: NVLink; PIX, PXB: one PCIe switch, several; PHB: by the CPU's "
            "host bridge; NODE, SYS: within a NUMA node, between them; (in parentheses): without "
            "access to its memory\n"
            "\n"
            "between GPUs: NCCL\n"
            "NCCL 2.28.9: all ranks by NET/IB, P2P/CUMEM; network IB\n");
  EXPECT_TRUE(rank_warnings(gpus()).empty());
}

TEST(RankReport, a_rank_whose_nccl_falls_back_to_sockets_is_warned_of) {
  std::vector<measure::RankFacts> ranks = gpus();
  ranks[2].ways.ways = ranks[3].ways.ways = {"P2P/CUMEM", "NET/Socket"};
  const std::string text = only_warning(ranks);
  EXPECT_TRUE(has(text, "ranks 2-3: NCCL sends by TCP sockets")) << text;
  EXPECT_TRUE(has(text, "NCCL_NET") && has(text, "NCCL_IB_HCA")) << text;
}

TEST(RankReport, gpus_that_do_not_reach_each_other_are_in_parentheses_and_warned_of) {
  std::vector<measure::RankFacts> ranks = gpus();
  ranks[0].gpu->links[1] = ranks[1].gpu->links[0] = {GpuWay::system, false};
  EXPECT_TRUE(has(rank_table(ranks), "    0      =  (SYS)\n")) << rank_table(ranks);
  const std::string text = only_warning(ranks);
  EXPECT_TRUE(has(text, "ranks 0-1 on a: GPUs that do not reach each other")) << text;
}

TEST(RankReport, a_gpu_that_two_ranks_share_is_the_same_one) {
  std::vector<measure::RankFacts> ranks = gpus();
  ranks[1].gpu = ranks[0].gpu;
  ranks[0].gpu->links = ranks[1].gpu->links = {{}, {}};
  EXPECT_TRUE(has(rank_table(ranks), "    0      =      =\n")) << rank_table(ranks);
  EXPECT_TRUE(rank_warnings(ranks).empty());
}

TEST(RankReport, ranks_that_lack_what_others_have_are_named) {
  std::vector<measure::RankFacts> ranks = gpus();
  ranks[3].gpu = std::nullopt;
  ranks[3].why_no_gpu = "no NVIDIA driver is loaded";
  std::string text = only_warning(ranks);
  EXPECT_EQ(text, "rank 3 without a GPU, which others have: no NVIDIA driver is loaded");
  EXPECT_FALSE(has(rank_table(ranks), "peers"));
  ranks = gpus();
  ranks[1].mpi = "MPICH 4.0";
  text = only_warning(ranks);
  EXPECT_TRUE(has(text, "rank 1 loaded MPICH 4.0, and rank 0 MPICH 4.2")) << text;
}

TEST(RankReport, the_same_advice_for_several_ranks_is_one_line) {
  std::vector<measure::RankFacts> ranks = {plain("a", {0}), plain("a", {1}), plain("a", {2})};
  ranks[0].advice = ranks[2].advice = "each rank on a is pinned to one core";
  EXPECT_EQ(only_warning(ranks), "ranks 0,2: each rank on a is pinned to one core");
}

}  // namespace
}  // namespace fourfold::show
