// Small words in which the rules of the rows are written. For ops_*.cpp only.
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

/// Whether `window` has a global size and a first index for every dim of `local`.
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

/// Letters for the dims of each tensor of a list, none of them twice.
inline std::vector<std::string> letters_of_each(std::span<const Shape> tensors) {
  std::vector<std::string> list;
  char next = '!';  // the first of 94 letters that print
  for (const Shape& shape : tensors) {
    require(static_cast<std::size_t>('~' - next) >= shape.rank(),
            "so many dims of a list have no letters; ask the rules of its parts");
    list.push_back(letters(shape.rank(), next));
    next = static_cast<char>(next + static_cast<int>(shape.rank()));
  }
  return list;
}

constexpr Role write_or_update(bool accumulate) {
  return accumulate ? Role::update : Role::write;
}

}  // namespace fourfold::op
