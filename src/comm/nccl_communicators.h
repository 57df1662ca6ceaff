// NCCL's communicators of one rank: how they come to be, how long they are waited for, what they
// say when something is wrong, and their end. Not what passes through them: nccl_world.h.
//
// The communicator of all ranks does not block: every call that makes one is looked after until it
// is over, so that a rank which never comes is named after a time-out, and the end of the job is
// heard. All others are split from it, and block: what is enqueued on them is on its stream when
// the call returns, as a graph that is captured wants it, where a call that does not block leaves
// it to a thread of NCCL's.
//
// A blocking call connects ranks the first time that it needs them, and waits for them on the host.
// Two ranks that each send first would wait for each other, though their programs, whose streams do
// not wait on the host, end. So every communicator carries a few bytes when it is made, all ranks
// together and in one order.
//
// They share nothing (splitShare 0): those that share take turns on the device, whatever their
// streams.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/device_world.h"
#include "comm/nccl_api.h"
#include "comm/split_rounds.h"
#include "comm/world.h"

namespace fourfold::comm {

struct NcclOptions {
  /// How long ranks wait for each other when a communicator is made. A rank that died is noticed
  /// earlier, by the monitor.
  double time_out_s = 300;
  /// Where first bytes are sent; CUDA's default stream as it is.
  DeviceStream first_stream = nullptr;
};

class NcclCommunicators {
 public:
  using Lock = std::unique_lock<std::mutex>;

  /// All ranks of `world` construct it together, each with its device the current one of the
  /// calling thread, and so for all calls but abort(). Errors of all calls: Aborted once the job
  /// has ended; UserError(environment, peer_lost, or out_of_memory where NCCL says that the device
  /// has no room) with the rank, the call and NCCL's words; here also UserError(ranks_disagree)
  /// where ranks have loaded different versions.
  NcclCommunicators(World& world, const NcclApi& api, const NcclOptions& options);
  /// Ends NCCL: in order, or by abort() where the job has ended or an exception is under way.
  ~NcclCommunicators();
  NcclCommunicators(const NcclCommunicators&) = delete;
  NcclCommunicators& operator=(const NcclCommunicators&) = delete;

  enum class Use : std::uint8_t { collectives, messages };  // messages go from member 0 to member 1
  struct Made {
    Party party;
    NcclComm comm;
  };
  /// The communicators of `own` that are not there yet. All ranks call together (parties_of_all).
  std::vector<Made> make(std::span<const Party> own, Use use);

  /// Device memory for tensors that are exchanged, of NCCL's own giving: devices of this host that
  /// can reach it may read and write it (ncclMemAlloc sees to that, without a context on them), and
  /// it is registered whole with every communicator but that of all ranks, so that nothing is
  /// copied through NCCL's buffers. All ranks call together: of a communicator, either all or no
  /// members register. Stays until this object goes. Errors: out_of_memory names the bytes.
  std::byte* allocate(std::size_t bytes);

  const NcclApi& api() const { return api_; }
  const World& world() const { return world_; }

  /// An answer holds the result of a call, and the name that NCCL has for the call.
  struct Answer {
    NcclResult result;
    std::string_view call;
  };
  /// Makes calls that may block, and returns once they are over: NCCL connects ranks in the first
  /// call that goes a way between them, which may be the first one of its size. A call that blocks
  /// for longer than the job lasts is ended, also where a rank died before it connected. `what`:
  /// who is connected, for messages. Cost: a thread for as long as the calls take.
  void carry_out(NcclComm comm, std::string_view what, const std::function<Answer()>& calls);
  /// Throws what went wrong on any communicator after the calls were over.
  void check();

  /// Releases all who wait in NCCL, on this device and in its calls; none is made after it. From
  /// any thread, again and again. Graphs that hold calls of a communicator are given up before:
  /// NCCL waits until they are gone, in ncclCommAbort as in ncclCommDestroy (NCCL 2.28.3,
  /// src/init.cc: commDestroySync); one that runs may be given up, as CUDA frees it at its end.
  void abort();

 private:
  class Watch;
  struct Entry {
    NcclComm comm = nullptr;
    std::string what;
    std::vector<void*> registered = {};  // handles, one for each memory
  };
  struct Memory {
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  /// Held while NCCL is called, so that nobody takes communicators away meanwhile.
  Lock enter();
  /// Returns once a call is over that gave `result`. `call` is NCCL's name of it, `what` it is for.
  void settle(NcclResult result, NcclComm comm, std::string_view call, std::string_view what,
              Lock& lock);
  void wait(NcclComm comm, std::string_view call, std::string_view what, Lock& lock);
  void split(std::span<const Party> parties, const SplitRound& round, Use use,
             std::vector<Made>& made);
  void first_use(const Made& made, Use use);
  Answer carry_first_bytes(const Made& made, Use use);
  [[noreturn]] void fail(NcclResult result, NcclComm comm, std::string_view call,
                         std::string_view what);
  [[noreturn]] void time_out(std::string_view what) const;
  void register_with(Entry& entry, const Memory& memory, Lock& lock);
  void end_in_order();

  World& world_;
  NcclApi api_;
  NcclOptions options_;
  int exceptions_at_start_;
  std::mutex calls_;
  std::mutex aborts_;
  std::atomic<bool> is_aborted_{false};
  Entry all_;                    // the communicator of all ranks
  std::deque<Entry> parts_;      // split from it; NCCL writes to them while they are made
  std::set<Party> groups_made_;  // of all ranks, as make() has to skip the same everywhere
  std::set<Party> messages_made_;
  void* first_bytes_ = nullptr;
  std::vector<Memory> memory_;
};

}  // namespace fourfold::comm
