#include "base/shape.h"

#include <charconv>

#include "base/error.h"
#include "base/format.h"

namespace fourfold {

std::int64_t Shape::elements(std::size_t first, std::size_t last) const {
  std::int64_t product = 1;
  for (std::size_t dim = first; dim < last; ++dim)
    require(!__builtin_mul_overflow(product, dims_[dim], &product),
            "a shape has at most 2^63 elements");
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t dim = 0; dim < shape.rank(); ++dim)
    text += format("{}{}", dim == 0 ? "" : ", ", shape[dim]);
  return text + "]";
}

std::optional<Shape> parse_shape(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  Shape shape;
  while (!text.empty()) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) return std::nullopt;
    shape.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) break;
    if (text.front() != ',') return std::nullopt;
    text.remove_prefix(1);
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    if (text.empty()) return std::nullopt;
  }
  return shape;
}

}  // namespace fourfold
