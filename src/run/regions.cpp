#include "run/regions.h"

#include "base/error.h"

namespace fourfold::run {

std::span<std::byte> Regions::bytes(const program::Buffer& buffer, std::int64_t parity) const {
  const std::span<std::byte> all = of(buffer.region);
  const std::int64_t copy = buffer.two_by_parity ? parity * buffer.size_bytes : 0;
  const std::int64_t begin = buffer.offset_bytes + copy;
  require(begin >= 0 && begin + buffer.size_bytes <= static_cast<std::int64_t>(all.size()),
          "a buffer lies within its region");
  return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(buffer.size_bytes));
}

}  // namespace fourfold::run
