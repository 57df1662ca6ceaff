#include "measure/device_exchanges.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/format.h"
#include "base/reduction.h"

namespace fourfold::measure {
namespace {

constexpr int exchange_tag = 1;

}  // namespace

DeviceCarrier::DeviceCarrier(comm::World& world, run::cuda::Device& device,
                             comm::DeviceWorld& carries, std::int64_t most_bytes)
    : world_(world),
      device_(device),
      carries_(carries),
      most_bytes_(most_bytes),
      stream_(make_stream(device, run::cuda::Device::Priority::urgent)),
      memory_(carries.allocate(2 * most_bytes)) {
  if (memory_ == nullptr) {
    own_ = make_memory(device, 2 * most_bytes);
    memory_ = own_.get();
  }
  // Sums of zeros stay zeros, however often they are taken.
  device.clear(memory_, 2 * most_bytes, 2 * most_bytes, 1, stream_.get());
  device.synchronize(stream_.get());
}

void DeviceCarrier::prepare(const Exchange& exchange, const std::vector<Rank>& members,
                            std::int64_t most_bytes) {
  require(most_bytes <= most_bytes_, "there is memory for the largest exchange");
  kind_ = exchange.kind;
  members_ = members;
  if (!kind_) {
    std::vector<comm::Channel> channels;
    if (members.back().index() < world_.size()) {
      const Rank peer = members[members[0] == world_.rank() ? 1 : 0];
      channels = {{peer, exchange_tag, true}, {peer, exchange_tag, false}};
    }
    carries_.create_channels(channels);
    return;
  }
  const comm::GroupSpec spec{format("bench {} {}", exchange.ranks, exchange.stride), members,
                             most_bytes, 0};
  carries_.create_groups({&spec, 1});
  group_ = &carries_.group(members, spec.name);
}

void DeviceCarrier::send_and_receive(comm::Bytes bytes) {
  const bool is_first = members_[0] == world_.rank();
  const Rank peer = members_[is_first ? 1 : 0];
  if (is_first) carries_.send(peer, exchange_tag, bytes, stream_.get());
  carries_.recv(peer, exchange_tag, bytes, stream_.get());
  if (!is_first) carries_.send(peer, exchange_tag, bytes, stream_.get());
}

void DeviceCarrier::call(std::size_t bytes) {
  const comm::Bytes from(memory_, bytes), to(memory_ + most_bytes_, bytes);
  if (!kind_) return send_and_receive(from);
  const auto [sent, taken] = sides_of(*kind_, from, to, members_.size());
  group_->enqueue({*kind_, DType::f32, Reduction::sum, {sent}, {taken}}, stream_.get());
}

void DeviceCarrier::settle() {
  device_.synchronize(stream_.get());
  carries_.check();
}

}  // namespace fourfold::measure
