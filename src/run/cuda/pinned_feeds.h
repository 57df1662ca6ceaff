// What one program is fed, in pinned memory, once for each parity: filled by the host, copied by
// the device, and where the feeder allows it filled for the next step while this one
// runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "run/backend.h"
#include "run/cuda/device.h"
#include "run/prepared_program.h"

namespace fourfold::run::cuda {

class PinnedFeeds {
 public:
  /// `prepared` must outlive it.
  PinnedFeeds(Device& device, const PreparedProgram& prepared);

  /// From pinned memory to where the feed of that instruction goes.
  RowCopy copy_of(std::size_t instruction, std::size_t parity) const;

  /// Fills those of the step, unless that was done ahead. What the feeder throws goes to `failed`,
  /// with the feed's instruction, and ends it.
  using Failed = std::function<void(std::size_t instruction, const std::exception& exception)>;
  void fill(std::int64_t step, Feeder* feeder, const Failed& failed);
  /// Fills those of a step to come. What the feeder throws is left for `fill`.
  void fill_ahead(std::int64_t step, Feeder& feeder);

 private:
  struct Entry {
    std::size_t instruction;
    std::size_t offset_bytes;
  };
  void fill_one(const Entry& entry, std::int64_t step, Feeder& feeder);

  const PreparedProgram& prepared_;
  std::vector<Entry> entries_;
  ByParity<PinnedMemory> memory_;
  /// What was filled ahead, and by whom.
  struct Ahead {
    std::int64_t step;
    const Feeder* feeder;
  };
  std::optional<Ahead> ahead_;
};

}  // namespace fourfold::run::cuda
