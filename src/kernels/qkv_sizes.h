// Sizes of what attention reads.
#pragma once

#include <cstdint>

#include "base/shape.h"
#include "kernels/on_device.h"

namespace fourfold::kernels {

/// qkv (B, T, 3, H, D), or grouped (B, T, G, R + 2, D), whose T may be several dims. A grouped one
/// has H = G R heads; else each head is a group of its own.
struct QkvSizes {
  std::int64_t batch, time, groups, of_group, heads, width;
  bool grouped;
  explicit QkvSizes(const Shape& qkv, bool is_grouped = false)
      : batch(qkv[0]),
        time(qkv.elements(1, qkv.rank() - 3)),
        groups(qkv[qkv.rank() - (is_grouped ? 3 : 2)]),
        of_group(is_grouped ? qkv[qkv.rank() - 2] - 2 : 1),
        heads(groups * of_group),
        width(qkv.back()),
        grouped(is_grouped) {}

  /// From a token to the next.
  FOURFOLD_CUDA std::int64_t qkv_row() const { return (heads + 2 * groups) * width; }
  FOURFOLD_CUDA std::int64_t group_of(std::int64_t head) const { return head / of_group; }
  /// Where the query of a head begins among the elements of a token.
  FOURFOLD_CUDA std::int64_t query(std::int64_t head) const {
    return (grouped ? head + 2 * group_of(head) : head) * width;
  }
  /// Likewise its key (part 1) or its value (part 2), which all heads of its group share.
  FOURFOLD_CUDA std::int64_t shared(std::int64_t part, std::int64_t head) const {
    const std::int64_t group = group_of(head);
    return (grouped ? (group + 1) * of_group + 2 * group + part - 1 : part * heads + head) * width;
  }
  /// Likewise its query (part 0), key or value.
  FOURFOLD_CUDA std::int64_t in_token(std::int64_t part, std::int64_t head) const {
    return part == 0 ? query(head) : shared(part, head);
  }
};

}  // namespace fourfold::kernels
