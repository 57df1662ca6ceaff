// Ranks that are threads of one process and share one GPU, so that whole grids can be checked on a
// single one. Each rank has its own arena and streams; collectives and messages read and write the
// memory of other ranks directly, by kernels of kernels/cuda/reduce_members.h and copies. Not for
// speed: ranks take turns on the device, and the threads that give it its work meet on the host.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/device_world.h"
#include "comm/world.h"
#include "run/cuda/device.h"

namespace fourfold::run::cuda {

/// What the ranks have in common. Outlives their backends, so that nobody works in memory, or waits
/// for an event, of a rank that a fault has ended before the others.
class SharedGpu {
 public:
  /// The device must outlive it.
  explicit SharedGpu(Device& device) : device_(device) {}

  Device& device() { return device_; }
  // For any thread. What they give stays until this object goes.
  std::byte* allocate(std::int64_t bytes);
  Event make_event();

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<DeviceMemory> memory_;
  std::vector<OwnedEvent> events_;
};

/// One rank's view. Whoever enqueues waits on the host until all members of a group, or the peer of
/// a message, have come, and until each has given the device its work: so a stream of the device
/// waits only for what the device was given before, and streams of the device never wait in a
/// circle. On the host, calls wait for each other as those of comm::World do. Nothing is allocated
/// in a collective but for the first one of so many tensors, and for the first message of a stream.
class SharedGpuWorld : public comm::DeviceWorld {
 public:
  /// `world`: of threads (comm/threads.h), whose groups of these names nobody else uses, and whose
  /// `send` returns when the receiver has taken the bytes. Both must outlive it.
  SharedGpuWorld(SharedGpu& gpu, comm::World& world);
  ~SharedGpuWorld() override;

  void create_groups(std::span<const comm::GroupSpec> specs) override;
  comm::DeviceGroup& group(std::span<const Rank> members, std::string_view name) override;
  void send(Rank peer, int tag, std::span<const std::byte> bytes, Stream stream) override;
  void recv(Rank peer, int tag, std::span<std::byte> bytes, Stream stream) override;
  bool can_be_captured() const override { return false; }
  /// What the device waits for never depends on a rank that is gone.
  void check() override {}

 private:
  class Group;
  /// What a stream that sends has.
  struct Events {
    Event ready = nullptr, taken = nullptr;
  };
  Events events_of(Stream stream);

  SharedGpu& gpu_;
  comm::World& world_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::mutex mutex_;
  std::map<Stream, Events> events_;
};

}  // namespace fourfold::run::cuda
