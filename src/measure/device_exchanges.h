// Exchanges between tensors in the memory of devices, for exchanges.h: enqueued on a stream, by
// whatever carries tensors between ranks there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/device_world.h"
#include "measure/exchanges.h"
#include "run/cuda/device.h"

namespace fourfold::measure {

class DeviceCarrier : public Carrier {
 public:
  /// Takes device memory for exchanges of at most so many bytes. All ranks construct it together;
  /// all that is given outlives it. Errors: of Device and DeviceWorld.
  DeviceCarrier(comm::World& world, run::cuda::Device& device, comm::DeviceWorld& carries,
                std::int64_t most_bytes);

  void prepare(const Exchange& exchange, const std::vector<Rank>& members,
               std::int64_t most_bytes) override;
  void call(std::size_t bytes) override;
  void settle() override;

 private:
  /// There and back, so that half of it is one way.
  void send_and_receive(comm::Bytes bytes);

  comm::World& world_;
  run::cuda::Device& device_;
  comm::DeviceWorld& carries_;
  std::int64_t most_bytes_;
  run::cuda::OwnedStream stream_;
  run::cuda::DeviceMemory own_;  // where `carries` has no memory of its own
  std::byte* memory_ = nullptr;  // two halves, so that all kinds have room
  ExchangeKind kind_;
  std::vector<Rank> members_;
  comm::DeviceGroup* group_ = nullptr;
};

}  // namespace fourfold::measure
