// How far the device is in what ranks exchange, as the host sees it at any time: after each
// collective and message its place in the list is copied to pinned memory. So an instruction can be
// named that waits for a rank which is gone or late, although a step is one graph. Not times
// (instruction_times.h). Cost: a copy of 4 bytes on the stream of each exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "run/cuda/device.h"
#include "run/cuda/staging.h"

namespace fourfold::run::cuda {

class ExchangeMarks {
 public:
  /// An instruction that needs other ranks, and the number of its stream.
  struct Exchange {
    std::size_t instruction = 0, stream = 0;
  };

  /// For programs of at most so many instructions, on so many streams. Waits for `stream`.
  ExchangeMarks(Device& device, std::size_t instructions, std::size_t streams, Staging& staging,
                Stream stream);

  /// Enqueues that a run begins: none of its exchanges is over.
  void begin(Stream stream) const;
  /// Enqueues that this one is over, after it on its stream.
  void over(const Exchange& exchange, Stream stream) const;

  /// The first exchange of a list that is not over, in the run that the device began last. The
  /// exchanges of one stream are over in the order of the list. From any thread.
  std::optional<std::size_t> first_open(std::span<const Exchange> exchanges) const;

 private:
  Device& device_;
  std::size_t instructions_, streams_;
  DeviceMemory numbers_;  // of all instructions, then for each stream that none is over
  PinnedMemory last_;     // of each stream: the instruction that was over last
};

}  // namespace fourfold::run::cuda
