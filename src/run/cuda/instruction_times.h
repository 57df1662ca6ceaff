// When the instructions of one uncaptured run of a program ran on the device, from events around
// each, on the host's clock.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "run/cuda/device.h"
#include "trace/interval.h"

namespace fourfold::run::cuda {

class InstructionTimes {
 public:
  InstructionTimes(Device& device, std::size_t instructions);

  /// Waits for the stream and ties the device's clock to the host's there.
  void begin(Stream stream);
  void before(std::size_t instruction, Stream stream);
  void behind(std::size_t instruction, Stream stream);
  /// All streams have been waited for.
  void read(std::span<trace::Interval> intervals) const;

 private:
  Device& device_;
  OwnedEvent origin_;
  std::int64_t origin_ns_ = 0;  // trace::now_ns
  std::vector<OwnedEvent> before_, behind_;
};

}  // namespace fourfold::run::cuda
