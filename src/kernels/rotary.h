// Vectors of a grouped qkv, and by how much op::Rotary turns them, written once for all backends.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/shape.h"
#include "kernels/kernel.h"
#include "kernels/on_device.h"

namespace fourfold::kernels {

/// qkv (B, T, G, S, D) as vectors of D elements: of each group of a token S, the last but one of
/// which is the key and the last one the value.
struct QkvVectors {
  std::int64_t batch, time, groups, of_group, width;
  explicit QkvVectors(const Shape& qkv)
      : batch(qkv[0]), time(qkv[1]), groups(qkv[2]), of_group(qkv[3]), width(qkv[4]) {}

  FOURFOLD_CUDA std::int64_t tokens() const { return batch * time; }
  FOURFOLD_CUDA std::int64_t of_token() const { return groups * of_group; }
  FOURFOLD_CUDA bool is_value(std::int64_t vector) const {
    return vector % of_group == of_group - 1;
  }
  FOURFOLD_CUDA bool is_key(std::int64_t vector) const { return vector % of_group == of_group - 2; }
  /// Where queries and keys have their rstd.
  FOURFOLD_CUDA std::int64_t in_rstd(std::int64_t vector) const {
    return vector - vector / of_group;
  }
  /// The vector of a query, and that of a key, which are counted apart.
  FOURFOLD_CUDA std::int64_t query(std::int64_t index) const {
    return index / (of_group - 2) * of_group + index % (of_group - 2);
  }
  FOURFOLD_CUDA std::int64_t key(std::int64_t index) const {
    return index * of_group + of_group - 2;
  }
};

/// What a pair of elements is multiplied with.
struct Turn {
  double cosine, sine;
};

/// In double: the angle of a late position loses what its integer part takes of a float's digits.
inline Turn turn_of(const op::Rotary& op, std::int64_t position, std::size_t pair) {
  const double angle = static_cast<double>(position) * op.frequencies[pair];
  const double sine = op.factor * std::sin(angle);
  return {op.factor * std::cos(angle), op.negative ? -sine : sine};
}

/// The operands of op::Rotary after qkv, and the position of the first token of every sample.
struct RotaryOperands {
  std::size_t starts = 1, y;
  explicit RotaryOperands(const op::Rotary& op) : y(op.positions != 0 || op.documents ? 2 : 1) {}
  static std::int64_t first(const op::Rotary& op, Tensors operands) {
    return op.first + (op.positions == 0 ? 0 : *operands[1].as<std::int32_t>());
  }
};

}  // namespace fourfold::kernels
