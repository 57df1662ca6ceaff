// Parts of arrays, as ranks hold them: cut along a dim, put together again. Header only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "numerics/harness.h"

namespace fourfold::numerics {

/// Sizes before, at and after a dim.
struct Around {
  std::size_t outer, size, inner;
  Around(const Shape& shape, std::size_t dim)
      : outer(static_cast<std::size_t>(shape.elements(0, dim))),
        size(static_cast<std::size_t>(shape[dim])),
        inner(static_cast<std::size_t>(shape.elements(dim + 1, shape.rank()))) {}
};

/// Indices [first, first + count) of a dim; those beyond its end hold `padding`.
inline Array slice(const Array& array, std::size_t dim, std::int64_t first, std::int64_t count,
                   double padding = std::numeric_limits<double>::quiet_NaN()) {
  Shape shape = array.shape;
  shape[dim] = count;
  Array part = filled(shape, padding);
  const Around from(array.shape, dim), to(shape, dim);
  for (std::size_t outer = 0; outer < to.outer; ++outer)
    for (std::size_t i = 0; i < to.size; ++i)
      for (std::size_t inner = 0; inner < to.inner; ++inner) {
        const std::size_t source = static_cast<std::size_t>(first) + i;
        if (source < from.size)
          part.data[(outer * to.size + i) * to.inner + inner] =
              array.data[(outer * from.size + source) * from.inner + inner];
      }
  return part;
}

/// Arrays one after the other along a dim.
inline Array concatenated(const Arrays& parts, std::size_t dim) {
  Shape shape = parts[0].shape;
  for (std::size_t part = 1; part < parts.size(); ++part) shape[dim] += parts[part].shape[dim];
  Array whole = filled(shape, 0);
  const Around to(shape, dim);
  std::size_t first = 0;
  for (const Array& part : parts) {
    const Around from(part.shape, dim);
    for (std::size_t outer = 0; outer < from.outer; ++outer)
      for (std::size_t i = 0; i < from.size * from.inner; ++i)
        whole.data[(outer * to.size + first) * to.inner + i] =
            part.data[outer * from.size * from.inner + i];
    first += from.size;
  }
  return whole;
}

/// Element by element.
inline Array sum(const Arrays& terms) {
  Array total = terms[0];
  for (std::size_t term = 1; term < terms.size(); ++term)
    for (std::size_t i = 0; i < total.data.size(); ++i) total.data[i] += terms[term].data[i];
  return total;
}

/// |got - expected| <= bound * magnitude for every element.
inline void expect_near(const Array& got, const Array& expected, const Array& magnitude,
                        double bound, const std::string& what) {
  ASSERT_EQ(got.shape, expected.shape) << what;
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    const double difference = std::abs(got.data[i] - expected.data[i]);
    ASSERT_TRUE(difference <= bound * magnitude.data[i])
        << what << "[" << i << "]: got " << got.data[i] << ", expected " << expected.data[i]
        << ", bound " << bound * magnitude.data[i];
  }
}

/// The rounding of the type in which a backend sums.
inline double rounding(const Backend& backend) {
  return accumulation_type(backend.dtype) == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                        : std::numeric_limits<float>::epsilon();
}

}  // namespace fourfold::numerics
