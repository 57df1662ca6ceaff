// Where the memory of a bundle lies, on whatever device. Not its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "program/program.h"

namespace fourfold::run {

struct Regions {
  std::span<std::byte> persistent, transient;

  std::span<std::byte> of(program::Region region) const {
    return region == program::Region::persistent ? persistent : transient;
  }
  /// The bytes of a buffer's copy of that parity; the only copy for buffers that have one.
  std::span<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity) const;
};

}  // namespace fourfold::run
