// What passes between ranks by way of the host: from the device into pinned memory, through the
// collectives and messages of comm::World, and back. For ranks that are processes, each on a GPU of
// its own or several on one, where nothing faster is there.
//
// Large tensors go in pieces: while the host exchanges one, the device copies the next ones out and
// those before back in. The thread of a stream waits for both; streams overlap.
//
// Where the library between processes takes device memory, messages are given to it as they lie on
// the device. Collectives are not: a waiting thread sleeps in those of comm::World, for which MPI
// has to begin them and say when they are over, and libraries that take device memory do so in
// calls that block alone (https://www.open-mpi.org/faq/?category=runcuda: "Neither the nonblocking
// collective APIs ..."); in reductions they copy to the host themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/device_world.h"
#include "comm/world.h"
#include "run/cuda/device.h"

namespace fourfold::run::cuda {

struct StagedOptions {
  /// How much of a tensor is copied at a time: the first one of them overlaps with nothing, and
  /// each costs an exchange of its own. At 25 GB/s it takes 0.17 ms to copy these.
  std::size_t piece_bytes = std::size_t{4} << 20;
  enum class Messages : std::uint8_t { by_the_host, of_device_memory };
  Messages messages = Messages::by_the_host;
};

class StagedWorld : public comm::DeviceWorld {
 public:
  /// Both must outlive it. Groups of the names that are asked for are used by nobody else. All
  /// ranks have the same options.
  StagedWorld(Device& device, comm::World& world, const StagedOptions& options = {});
  ~StagedWorld() override;

  /// Takes pinned memory: for each group what its largest collective has on both sides.
  void create_groups(std::span<const comm::GroupSpec> specs) override;
  comm::DeviceGroup& group(std::span<const Rank> members, std::string_view name) override;
  void send(Rank peer, int tag, std::span<const std::byte> bytes, Stream stream) override;
  void recv(Rank peer, int tag, std::span<std::byte> bytes, Stream stream) override;
  bool can_be_captured() const override { return false; }
  /// The device never waits for another rank.
  void check() override {}

 private:
  class Place;
  class Group;
  Place& place_of(Stream stream);

  Device& device_;
  comm::World& world_;
  StagedOptions options_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::mutex mutex_;
  std::map<Stream, std::unique_ptr<Place>> places_;  // for messages
};

}  // namespace fourfold::run::cuda
