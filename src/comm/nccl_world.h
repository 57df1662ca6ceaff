// Ranks with a GPU each, over NCCL: DeviceWorld (device_world.h) beside a World of the same ranks,
// by which they find each other and which ends the job. It needs no header of CUDA: memory and
// streams are opaque. Not how communicators are made and ended: nccl_communicators.h.
//
// Groups. One communicator for each members and name, so that streams have communicators of their
// own. A collective of several tensors is a group of NCCL's calls, one for each: nothing is packed.
// What goes directly, as an all-to-all does, is a group of sends and receives. Sums are in NCCL's
// order: with more than two members bits may depend on their number and places.
//
// Maxima. NCCL takes the larger number, and drops a NaN where another member has a number, which
// Group (group.h) keeps. That is of no harm to the one maximum of floats that programs take: of the
// logits of a vocabulary that ranks share. The kernels that take a rank's own maximum let a NaN
// count as nothing, too; the next instruction subtracts the maximum from these logits, so a NaN
// among them stays in their sum (test VocabularyParts.do_not_hide_a_nan). Votes are maxima of
// integers.
//
// Messages. NCCL pairs the k-th send to a peer with its k-th receive on the same communicator and
// knows no tags; programs pair the k-th send of a tag with the k-th receive of that tag (rule
// "matching" of verify/), and may send several tags in another order than the peer takes them. So
// each channel, which is a sender, a receiver and a tag, has a communicator: the order on it is the
// order of the tag. It is on one stream on each side (compile/lower.cpp: "to", "pass", "from"), as
// calls on one communicator take turns whatever their streams. A message is then over when both
// have reached it, and needs no more than that: what verify/ proves of streams that wait for their
// partners (rule "deadlock") holds on a device, as long as all kernels that wait at a time find
// room on it; messages are held to few multiprocessors for that.
//
// Where calls of ranks do not fit together NCCL hangs or mixes up data, and says nothing. Programs
// are proved before, and the job's monitor notices who hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "comm/device_world.h"
#include "comm/nccl_api.h"
#include "comm/nccl_communicators.h"

namespace fourfold::comm {

class NcclWorld : public DeviceWorld {
 public:
  /// All ranks of `world` construct it together, after their devices were made current on the
  /// calling threads; `world` outlives it. It is destroyed before the device is given up, when all
  /// ranks are done with it. Errors: as of NcclCommunicators.
  NcclWorld(World& world, const NcclApi& api, const NcclOptions& options = {});
  ~NcclWorld() override;

  void create_groups(std::span<const GroupSpec> specs) override;
  DeviceGroup& group(std::span<const Rank> members, std::string_view name) override;
  void create_channels(std::span<const Channel> channels) override;
  std::byte* allocate(std::int64_t bytes) override;

  /// Requires that the channel was created. Bytes of any number; of none, nothing is sent.
  void send(Rank peer, int tag, std::span<const std::byte> bytes, DeviceStream stream) override;
  void recv(Rank peer, int tag, std::span<std::byte> bytes, DeviceStream stream) override;

  bool can_be_captured() const override { return true; }
  void check() override;

  /// Releases whoever waits in NCCL, on the host and on this rank's device, where kernels that wait
  /// for peers end.
  void abort() override;

 private:
  class Members;
  struct Pair {
    NcclComm comm;
    std::string what;
  };
  const Pair& pair(Rank peer, int tag, bool sends) const;

  NcclCommunicators communicators_;
  std::vector<std::unique_ptr<Members>> groups_;
  std::map<std::tuple<Rank, int, bool>, Pair> pairs_;
};

}  // namespace fourfold::comm
