#include "op/reshape_factors.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"

namespace fourfold::op {
namespace {

/// Where the dims of a shape begin and end, as strides: {24, 6, 1} of [4, 6].
std::vector<std::int64_t> borders_of(const Shape& shape) {
  std::vector<std::int64_t> borders = {1};
  for (std::size_t dim = shape.rank(); dim-- > 0;) borders.push_back(borders.back() * shape[dim]);
  std::reverse(borders.begin(), borders.end());
  return borders;
}

/// True if a stride falls on digits of a shape: it is a multiple of the dim's own stride and
/// divides that of the dim before.
bool is_digit(std::int64_t stride, const std::vector<std::int64_t>& borders) {
  for (std::size_t i = 0; i + 1 < borders.size(); ++i)
    if (stride <= borders[i] && stride >= borders[i + 1])
      return borders[i] % stride == 0 && stride % borders[i + 1] == 0;
  return stride == 1 || (!borders.empty() && stride == borders.front());
}

/// The strides at which both shapes can be split, outermost first: their common borders, and
/// between two of those what the outermost dims, and the innermost ones, of both have in common.
std::vector<std::int64_t> common_strides(const std::vector<std::int64_t>& from,
                                         const std::vector<std::int64_t>& to) {
  std::set<std::int64_t, std::greater<>> strides;
  for (const std::int64_t border : from)
    if (is_digit(border, to)) strides.insert(border);
  for (const std::int64_t border : to)
    if (is_digit(border, from)) strides.insert(border);
  const auto inside_of = [](const std::vector<std::int64_t>& borders, std::int64_t stride) {
    return *std::find_if(borders.begin(), borders.end(),
                         [&](std::int64_t border) { return border < stride; });
  };
  std::vector<std::int64_t> list(strides.begin(), strides.end());
  for (std::size_t i = 0; i + 1 < list.size(); ++i) {
    const std::int64_t outer = std::lcm(inside_of(from, list[i]), inside_of(to, list[i]));
    if (outer > list[i + 1] && outer < list[i] && is_digit(outer, from) && is_digit(outer, to))
      strides.insert(outer);
  }
  list.assign(strides.begin(), strides.end());
  const auto outside_of = [](const std::vector<std::int64_t>& borders, std::int64_t stride) {
    return *std::find_if(borders.rbegin(), borders.rend(),
                         [&](std::int64_t border) { return border > stride; });
  };
  for (std::size_t i = 0; i + 1 < list.size(); ++i) {
    const std::int64_t inner = std::gcd(outside_of(from, list[i + 1]), outside_of(to, list[i + 1]));
    if (inner < list[i] && inner > list[i + 1] && is_digit(inner, from) && is_digit(inner, to))
      strides.insert(inner);
  }
  return {strides.begin(), strides.end()};
}

class Builder {
 public:
  Builder(const Shape& from, const Shape& to) : from_(borders_of(from)), to_(borders_of(to)) {}

  FactorRule run() {
    const std::vector<std::int64_t> strides = common_strides(from_, to_);
    std::string from, to;
    for (std::size_t i = 0; i + 1 < strides.size(); ++i) {
      const std::int64_t outer = strides[i], inner = strides[i + 1];
      const auto crosses = [&](const std::vector<std::int64_t>& borders) {
        return std::any_of(borders.begin(), borders.end(),
                           [&](std::int64_t border) { return border < outer && border > inner; });
      };
      if (!crosses(from_) && !crosses(to_)) {
        const char factor = add_factor(outer / inner);
        place(factor, inner, from_, from_dims_);
        place(factor, inner, to_, to_dims_);
      } else {
        place_whole(outer, inner, from_, from_dims_);
        place_whole(outer, inner, to_, to_dims_);
      }
    }
    rule_.operands = {operand(from_, from_dims_), operand(to_, to_dims_)};
    rule_.linear = FactorRule::Linear::first;
    return std::move(rule_);
  }

 private:
  using Dims = std::map<std::size_t, std::string>;

  char add_factor(std::int64_t size) {
    const char factor = next_;
    next_ = static_cast<char>(next_ + 1);
    rule_.sizes[factor] = size;
    return factor;
  }

  /// The dim whose digits from `stride` on these are.
  static std::size_t dim_at(std::int64_t stride, const std::vector<std::int64_t>& borders) {
    for (std::size_t dim = borders.size() - 1; dim-- > 0;)
      if (stride < borders[dim] && stride >= borders[dim + 1]) return dim;
    fail_internal("a stride within a shape lies in one of its dims");
  }
  static void place(char factor, std::int64_t stride, const std::vector<std::int64_t>& borders,
                    Dims& dims) {
    dims[dim_at(stride, borders)] += factor;
  }

  /// Factors of one shape alone, a dim's share of [inner, outer) each.
  void place_whole(std::int64_t outer, std::int64_t inner, const std::vector<std::int64_t>& borders,
                   Dims& dims) {
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      const std::int64_t top = std::min(outer, borders[i]), low = std::max(inner, borders[i + 1]);
      if (top <= low) continue;
      const char factor = add_factor(top / low);
      rule_.whole += factor;
      dims[i] += factor;
    }
  }

  /// Gives a dim of one element a factor of its own, which nothing can cut.
  OperandFactors operand(const std::vector<std::int64_t>& borders, Dims& dims) {
    std::string text;
    for (std::size_t dim = 0; dim + 1 < borders.size(); ++dim) {
      std::string& factors = dims[dim];
      if (factors.empty()) {
        factors += add_factor(1);
        rule_.whole += factors;
      }
      text += factors.size() == 1 ? factors : "(" + factors + ")";
    }
    return OperandFactors(std::move(text));
  }

  std::vector<std::int64_t> from_, to_;
  Dims from_dims_, to_dims_;
  FactorRule rule_;
  char next_ = 'A';
};

}  // namespace

FactorRule reshape_factors(const Shape& from, const Shape& to) {
  require(from.elements() == to.elements() && from.elements() > 0,
          "a reshape keeps the elements, and there are some");
  return Builder(from, to).run();
}

}  // namespace fourfold::op
