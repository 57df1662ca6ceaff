// What one sample of a fed value is, as a model declares it and a source fills it. Not where
// samples come from (data/), and not which of them a rank is fed (program/).
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/shape.h"

namespace fourfold {

struct Input {
  std::string name;  // "tokens", "labels": unique among the inputs of a program
  DType dtype = DType::i32;
  Shape sample_shape;  // empty: one number a sample
  /// Throws InternalError on overflow of 64 bits.
  std::int64_t sample_bytes() const { return sample_shape.elements() * size_bytes(dtype); }
  bool operator==(const Input&) const = default;
};

}  // namespace fourfold
