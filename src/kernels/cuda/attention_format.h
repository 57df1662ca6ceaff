// Where the parts of attention's operands lie, as libraries want to know it: dims (B, H, T, D) with
// strides, in elements. Plain arithmetic, tested on the host.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/qkv_sizes.h"

namespace fourfold::kernels::cuda {

/// Offsets and strides into qkv (B,T,3,H,D), y (B,T,H,D) and lse (B,H,T), and those of their
/// gradients alike.
struct AttentionFormat : QkvSizes {
  using QkvSizes::QkvSizes;
  using Strides = std::array<std::int64_t, 4>;

  Strides dims() const { return {batch, heads, time, width}; }
  Strides qkv_strides() const { return {time * 3 * heads * width, width, 3 * heads * width, 1}; }
  Strides y_strides() const { return {time * heads * width, width, heads * width, 1}; }
  Strides lse_dims() const { return {batch, heads, time, 1}; }
  Strides lse_strides() const { return {heads * time, time, 1, 1}; }
  /// The offset of the query (0), key (1) or value (2) of the first token.
  std::int64_t part_offset(std::int64_t part) const { return part * heads * width; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
};

}  // namespace fourfold::kernels::cuda
