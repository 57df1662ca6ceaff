// Small words in which the rules and examples of the rows are written. For ops_*.cpp, and for files
// like them.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "op/rule.h"
#include "op/window.h"

namespace fourfold::op {

using Linear = FactorRule::Linear;

/// Letters for `count` dims from `first` on: letters(3) is "abc".
inline std::string letters(std::size_t count, char first = 'a') {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += static_cast<char>(first + static_cast<int>(i));
  return text;
}

/// The letters of a picture's pixels, x (samples, height, width ..., channels): from h on.
inline std::string pixel_letters(const Shape& x) {
  return letters(x.rank() - 2, 'h');
}
/// The letters of all dims of a picture: b, its pixels, c.
inline std::string picture_letters(const Shape& x) {
  return "b" + pixel_letters(x) + "c";
}

inline Shape join(const Shape& a, std::size_t a_first, std::size_t a_last, const Shape& b,
                  std::size_t b_first, std::size_t b_last) {
  Shape joined;
  for (std::size_t dim = a_first; dim < a_last; ++dim) joined.push_back(a[dim]);
  for (std::size_t dim = b_first; dim < b_last; ++dim) joined.push_back(b[dim]);
  return joined;
}

inline Shape leading(const Shape& shape, std::size_t count) {
  return join(shape, 0, count, {}, 0, 0);
}
/// Size of the last dim, and the dims before it: what the rows of an operand are. A scalar has
/// none.
inline std::int64_t last(const Shape& shape) {
  require(shape.rank() > 0, "an operand with rows is not a scalar");
  return shape.back();
}
inline Shape without_last(const Shape& shape) {
  require(shape.rank() > 0, "an operand with rows is not a scalar");
  return leading(shape, shape.rank() - 1);
}
inline double elements(const Shape& shape) {
  return static_cast<double>(shape.elements());
}

/// True if `rows` are the dims of x before its last one.
inline bool are_rows_of(const Shape& rows, const Shape& x) {
  return x.rank() > 0 && rows == leading(x, x.rank() - 1);
}
/// True if `count` places from `first` on lie within `size`.
inline bool lie_within(std::int64_t first, std::int64_t count, std::int64_t size) {
  return first >= 0 && count <= size && first <= size - count;
}

/// True if `window` has a global size and a first index for every dim of `local`.
inline bool is_window_of(const TensorWindow& window, const Shape& local) {
  if (window.global.rank() != local.rank() || window.first.rank() != local.rank()) return false;
  for (const std::int64_t first : window.first)
    if (first < 0) return false;
  return true;
}

/// How many tensors a row over a list has: what a text claims, within what a program can have.
inline std::int64_t list_length(std::int64_t claimed) {
  constexpr std::int64_t most = 100000;
  return std::clamp<std::int64_t>(claimed, 1, most);
}

/// An operand that the optimizer keeps from step to step and changes.
inline Operand kept(std::string_view name, State state, Element element = Element::compute) {
  return {name, Role::update, element, std::nullopt, state};
}

constexpr Role write_or_update(bool accumulate) {
  return accumulate ? Role::update : Role::write;
}

// --- words of examples

inline const Shape scalar, usual{2, 3, 4}, usual_picture{2, 5, 8, 3};
inline const SampleWindow some_samples{3, 16, 4};
inline const TensorWindow some_window{{5, 9}, {2, 4}};
inline constexpr Range any{-1, 1}, small{-0.25, 0.25}, positive{0.5, 2};

}  // namespace fourfold::op
