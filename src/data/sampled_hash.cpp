#include "data/sampled_hash.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/hash.h"

namespace fourfold::data {

std::uint64_t sampled_hash(const DataFile& file) {
  constexpr std::int64_t pieces = 64, piece_bytes = 4096;
  const std::int64_t size = file.size();
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(size, pieces * piece_bytes)));
  if (size <= pieces * piece_bytes) {
    file.read(0, bytes);
  } else {
    const std::int64_t last = size - piece_bytes;
    for (std::int64_t piece = 0; piece < pieces; ++piece)
      // Divided first: the product could be too large.
      file.read(last / (pieces - 1) * piece + last % (pieces - 1) * piece / (pieces - 1),
                std::span(bytes).subspan(static_cast<std::size_t>(piece * piece_bytes),
                                         static_cast<std::size_t>(piece_bytes)));
  }
  const std::uint64_t facts[] = {static_cast<std::uint64_t>(size), hash64(bytes)};
  return hash64(std::as_bytes(std::span(facts)));
}

}  // namespace fourfold::data
