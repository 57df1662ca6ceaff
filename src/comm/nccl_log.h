// What NCCL's log says of the ways that its communicators take: no function of NCCL tells. Pure.
// Not who writes the log: NCCL does where NCCL_DEBUG=INFO and NCCL_DEBUG_FILE are set before its
// first call.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace fourfold::comm {

struct NcclWays {
  std::string network;         // that it chose to go between hosts: "IB", "Socket"; empty: not said
  std::set<std::string> ways;  // of channels: "P2P/CUMEM", "SHM/direct", "NET/Socket"

  bool operator==(const NcclWays&) const = default;
  /// True if tensors pass by TCP sockets, which is what is left where a faster way is not found.
  bool has_sockets() const;
};

/// Lines that say nothing of it are passed over. As NCCL 2.19 to 2.30 write them:
///   host:12:34 [0] NCCL INFO Using network Socket
///   host:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0
NcclWays nccl_ways(std::string_view log);

}  // namespace fourfold::comm
