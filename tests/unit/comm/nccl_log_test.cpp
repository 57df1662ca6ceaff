// What is read of NCCL's log, on lines as several of its versions write them.
#include "comm/nccl_log.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace fourfold::comm {
namespace {

using Names = std::set<std::string>;

TEST(NcclLog, ways_of_one_host_are_read_whatever_stands_after_them) {
  const NcclWays ways = nccl_ways(
      "node1:811:840 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
      "node1:811:840 [0] NCCL INFO Using network Socket\n"
      "node1:811:840 [0] NCCL INFO Channel 00/24 : 0 1 2 3\n"
      "node1:811:840 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
      "node1:811:840 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
      "node1:811:840 [0] NCCL INFO Channel 00 : 1[1] -> 2[2] via SHM/direct/direct comm 0x7f "
      "nRanks 04\n");
  EXPECT_EQ(ways.network, "Socket");
  EXPECT_EQ(ways.ways, (Names{"P2P/CUMEM", "SHM/direct"}));
  EXPECT_FALSE(ways.has_sockets()) << "the network is chosen, and nothing goes by it";
}

TEST(NcclLog, channels_that_go_by_sockets_are_found) {
  const NcclWays ways = nccl_ways(
      "n:1:2 [0] NCCL INFO Using network Socket\n"
      "n:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n"
      "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0/Shared\n");
  EXPECT_EQ(ways.ways, (Names{"NET/Socket"}));
  EXPECT_TRUE(ways.has_sockets());
}

TEST(NcclLog, names_of_plugins_may_have_spaces) {
  const NcclWays ways = nccl_ways(
      "n:1:2 [0] NCCL INFO Using network AWS Libfabric\n"
      "n:1:2 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/AWS Libfabric/0/GDRDMA\n");
  EXPECT_EQ(ways.network, "AWS Libfabric");
  EXPECT_EQ(ways.ways, (Names{"NET/AWS Libfabric"}));
  EXPECT_FALSE(ways.has_sockets());
}

TEST(NcclLog, other_lines_say_nothing) {
  const NcclWays ways = nccl_ways(
      "n:1:2 [0] NCCL WARN Call to connect failed via Channel\nNCCL version 2.28.9+cuda13.0\n\n");
  EXPECT_EQ(ways.network, "");
  EXPECT_TRUE(ways.ways.empty());
}

}  // namespace
}  // namespace fourfold::comm
