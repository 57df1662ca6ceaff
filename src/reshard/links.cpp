#include "reshard/links.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace fourfold::reshard {

double chain_seconds(double bytes, std::int64_t chunks, Hops hops, const Links& links) {
  require(chunks > 0, "a box passes in one chunk at least");
  const double count = static_cast<double>(chunks), chunk_bytes = bytes / count;
  const double between_s = hops.between > 0 ? links.between.seconds(chunk_bytes) : 0;
  const double inside_s = hops.inside > 0 ? links.inside.seconds(chunk_bytes) : 0;
  return static_cast<double>(hops.between) * between_s +
         static_cast<double>(hops.inside) * inside_s + (count - 1) * std::max(between_s, inside_s);
}

std::int64_t best_chunks(double bytes, Hops hops, const Links& links, std::int64_t most) {
  const auto seconds = [&](std::int64_t chunks) {
    return chain_seconds(bytes, chunks, hops, links);
  };
  // The time is convex in K where one kind of link is the slowest for all K, and else the larger
  // of two such: convex too. So the least is where it begins to rise.
  std::int64_t low = 1, high = std::max<std::int64_t>(1, most);
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (seconds(middle + 1) < seconds(middle))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

double gather_seconds(double bytes, std::int64_t ranks, const Link& slowest) {
  if (ranks < 2) return 0;
  return static_cast<double>(ranks - 1) * slowest.seconds(bytes / static_cast<double>(ranks));
}

}  // namespace fourfold::reshard
