// The ranks of a job as one of them sees them whose tensors lie in the memory of a device: what
// passes between ranks is enqueued on a stream of the device, and nobody waits for it here. World
// (world.h) is its twin over host memory, which also serves the host's side of the job. Not the
// runtime of a device and not its headers: a stream is an opaque pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/mesh.h"
#include "base/reduction.h"
#include "comm/group.h"

struct CUstream_st;  // CUDA's own name for what a stream is

namespace fourfold::comm {

using DeviceStream = CUstream_st*;

/// One collective over device memory. Tensors, sizes and what may overlap are as in group.h, of one
/// tensor or of several; `from` and `to` of one in place are the same.
struct DeviceCollective {
  Collective kind = Collective::all_reduce;
  DType dtype = DType::f32;  // of reductions
  Reduction reduction = Reduction::sum;
  std::vector<Bytes> from, to;
};

/// Messages of one tag that this rank sends to a peer, or takes from it.
struct Channel {
  Rank peer;
  int tag = 0;
  bool sends = false;
};

/// A group, for one thread at a time. All members enqueue the same collectives in the same order.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  /// The stream goes on once this rank's `to` holds the result and its `from` may be written.
  /// Nothing is allocated. Errors: Aborted; UserError(environment) with what the library said, or
  /// UserError(peer_lost) where it says that another rank is gone.
  virtual void enqueue(const DeviceCollective& collective, DeviceStream stream) = 0;
};

class DeviceWorld {
 public:
  virtual ~DeviceWorld() = default;

  /// As World::create_groups: all ranks together, in the one order of the whole job, before the
  /// first collective. Takes device memory of the library's own.
  virtual void create_groups(std::span<const GroupSpec> specs) = 0;
  /// Makes ready for messages; all ranks together, each with its own ones, after create_groups and
  /// before the first message. Messages of channels that were not named may fail.
  virtual void create_channels(std::span<const Channel> /*channels*/) {}
  /// Memory of this rank's device for tensors that are exchanged, where what carries them has
  /// memory of its own that it carries better; null where any will do, and the caller takes its
  /// own. All ranks call together. It stays until this world goes.
  virtual std::byte* allocate(std::int64_t /*bytes*/) { return nullptr; }
  /// A group made before, of which this rank is a member. Errors: InternalError.
  virtual DeviceGroup& group(std::span<const Rank> members, std::string_view name) = 0;

  /// Bytes of one message, dense in device memory: the stream goes on once they were taken, or are
  /// there. Pairs as in World. Send and receive of two ranks may be enqueued in any order where
  /// they stand on streams of their own.
  virtual void send(Rank peer, int tag, std::span<const std::byte> bytes, DeviceStream stream) = 0;
  virtual void recv(Rank peer, int tag, std::span<std::byte> bytes, DeviceStream stream) = 0;

  /// True if what is enqueued may become part of a captured graph, which is launched many times.
  virtual bool can_be_captured() const = 0;
  /// Throws what went wrong on the device since the last call, as DeviceGroup::enqueue does. For
  /// whoever waits for the device, again and again.
  virtual void check() = 0;
  /// Ends what waits on this rank's device for ranks that will not come, so that the device is free
  /// again; all later calls throw Aborted. To be called after a fault, before the device is waited
  /// for or memory is given back, and after every graph that was captured has been given up. From
  /// any thread. Does nothing where the device never waits for another rank.
  virtual void abort() {}
};

}  // namespace fourfold::comm
