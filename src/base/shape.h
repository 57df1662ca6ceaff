// The sizes of a tensor's dims. Not its sharding and not its layout: tensors are row-major and
// dense.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

/// A list of dim sizes, outermost first; the empty shape is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}

  std::size_t rank() const { return dims_.size(); }
  std::int64_t operator[](std::size_t dim) const { return dims_[dim]; }
  std::int64_t& operator[](std::size_t dim) { return dims_[dim]; }
  std::int64_t back() const { return dims_.back(); }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  void push_back(std::int64_t size) { dims_.push_back(size); }

  /// Number of elements; 1 for a scalar. Throws InternalError on overflow of 64 bits.
  std::int64_t elements() const { return elements(0, rank()); }
  /// Product of the dims in [first, last).
  std::int64_t elements(std::size_t first, std::size_t last) const;

  bool operator==(const Shape&) const = default;

 private:
  std::vector<std::int64_t> dims_;
};

/// "[12, 64, 128]"; "[]" for a scalar.
std::string to_string(const Shape& shape);
/// Reads what to_string writes.
std::optional<Shape> parse_shape(std::string_view text);

}  // namespace fourfold
