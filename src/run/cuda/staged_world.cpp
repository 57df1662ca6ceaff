#include "run/cuda/staged_world.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "run/program_groups.h"

namespace fourfold::run::cuda {

using comm::DeviceCollective;

/// Pinned memory that one stream copies to and from.
class StagedWorld::Place {
 public:
  explicit Place(Device& device)
      : device_(device), copied_(cuda::make_event(device, Device::Timing::off)) {}

  /// Waits until nothing is copied from here or to here any more; the memory is as large as that.
  void prepare(std::size_t bytes) {
    finish();
    if (bytes <= size_) return;
    memory_ = make_pinned(device_, static_cast<std::int64_t>(bytes));
    size_ = bytes;
  }
  std::span<std::byte> bytes(std::size_t first, std::size_t bytes) const {
    return {memory_.get() + first, bytes};
  }
  void bring(std::span<const std::byte> from, std::span<std::byte> here, Stream stream) {
    if (!from.empty()) device_.copy(dense(here.data(), from.data(), from.size()), stream);
    note(stream);
  }
  void take(std::span<const std::byte> here, std::span<std::byte> to, Stream stream) {
    if (!to.empty()) device_.copy(dense(to.data(), here.data(), to.size()), stream);
    note(stream);
  }
  /// Waits for all of these.
  void finish() {
    if (is_copying_) device_.synchronize(copied_.get());
    is_copying_ = false;
  }

 private:
  void note(Stream stream) {
    device_.record(copied_.get(), stream);
    is_copying_ = true;
  }

  Device& device_;
  OwnedEvent copied_;
  PinnedMemory memory_;
  std::size_t size_ = 0;
  bool is_copying_ = false;
};

class StagedWorld::Group : public comm::DeviceGroup {
 public:
  Group(Device& device, comm::Group& host, const comm::GroupSpec& spec)
      : host_(host), place_(device) {
    place_.prepare(static_cast<std::size_t>(staged_bytes(spec)));
  }

  const comm::Group& host() const { return host_; }

  void enqueue(const DeviceCollective& what, Stream stream) override {
    lay_out(what);
    for (std::size_t i = 0; i < what.from.size(); ++i) place_.bring(what.from[i], from_[i], stream);
    place_.finish();
    exchange(what);
    for (std::size_t i = 0; i < what.to.size(); ++i) place_.take(to_[i], what.to[i], stream);
  }

 private:
  /// The sides of all tensors one after another; those of an all-reduce are the same.
  void lay_out(const DeviceCollective& what) {
    const bool is_one_side = what.kind == comm::Group::Kind::all_reduce;
    std::size_t bytes = 0;
    for (const comm::Bytes& side : what.from) bytes += side.size();
    for (const comm::Bytes& side : what.to) bytes += is_one_side ? 0 : side.size();
    place_.prepare(bytes);
    std::size_t first = 0;
    const auto lay = [&](const std::vector<comm::Bytes>& sides, std::vector<comm::Bytes>& here) {
      here.clear();
      for (const comm::Bytes& side : sides) {
        here.push_back(place_.bytes(first, side.size()));
        first += side.size();
      }
    };
    lay(what.from, from_);
    if (is_one_side)
      to_ = from_;
    else
      lay(what.to, to_);
  }

  void exchange(const DeviceCollective& what) {
    switch (what.kind) {
      case comm::Group::Kind::all_reduce:
        return host_.all_reduce(to_, what.dtype, what.reduction);
      case comm::Group::Kind::reduce_scatter:
        return host_.reduce_scatter(from_, to_, what.dtype, what.reduction);
      case comm::Group::Kind::all_gather:
        return host_.all_gather(from_, to_);
      case comm::Group::Kind::all_to_all:
        return host_.all_to_all(from_, to_);
    }
  }

  comm::Group& host_;
  Place place_;
  std::vector<comm::Bytes> from_, to_;
};

StagedWorld::StagedWorld(Device& device, comm::World& world) : device_(device), world_(world) {}
StagedWorld::~StagedWorld() = default;

void StagedWorld::create_groups(std::span<const comm::GroupSpec> specs) {
  world_.create_groups(specs);
  for (const comm::GroupSpec& spec : specs) {
    if (std::ranges::find(spec.members, world_.rank()) == spec.members.end()) continue;
    groups_.push_back(
        std::make_unique<Group>(device_, world_.group(spec.members, spec.name), spec));
  }
}

comm::DeviceGroup& StagedWorld::group(std::span<const Rank> members, std::string_view name) {
  for (const auto& group : groups_)
    if (group->host().name() == name && std::ranges::equal(group->host().members(), members))
      return *group;
  fail_internal(
      format("the group {} of {} ranks was made before it is used", name, members.size()));
}

StagedWorld::Place& StagedWorld::place_of(Stream stream) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Place>& place = places_[stream];
  if (place == nullptr) place = std::make_unique<Place>(device_);
  return *place;
}

void StagedWorld::send(Rank peer, int tag, std::span<const std::byte> bytes, Stream stream) {
  Place& place = place_of(stream);
  place.prepare(bytes.size());
  const std::span<std::byte> here = place.bytes(0, bytes.size());
  place.bring(bytes, here, stream);
  place.finish();
  world_.send(peer, tag, here);
}

void StagedWorld::recv(Rank peer, int tag, std::span<std::byte> bytes, Stream stream) {
  Place& place = place_of(stream);
  place.prepare(bytes.size());
  const std::span<std::byte> here = place.bytes(0, bytes.size());
  world_.recv(peer, tag, here);
  place.take(here, bytes, stream);
}

}  // namespace fourfold::run::cuda
