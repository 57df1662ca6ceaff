// What passes between ranks by way of the host: from the device into pinned memory, through the
// collectives and messages of comm::World, and back. For ranks that are processes, each on a GPU of
// its own or several on one, where nothing faster is there. Nothing overlaps within one exchange:
// the thread of a stream waits for the device, then for the other ranks; streams overlap.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/device_world.h"
#include "comm/world.h"
#include "run/cuda/device.h"

namespace fourfold::run::cuda {

class StagedWorld : public comm::DeviceWorld {
 public:
  /// Both must outlive it. Groups of the names that are asked for are used by nobody else.
  StagedWorld(Device& device, comm::World& world);
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
  std::vector<std::unique_ptr<Group>> groups_;
  std::mutex mutex_;
  std::map<Stream, std::unique_ptr<Place>> places_;  // for messages
};

}  // namespace fourfold::run::cuda
