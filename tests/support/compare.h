// How far two tensors are apart. Header only.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace fourfold::test {

inline double norm(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

/// |a - b| / max(|b|, floor) as norms of a tensor; the floor is usually 1e-6 times the norm of all
/// gradients.
inline double relative_error(std::span<const double> got, std::span<const double> expected,
                             double floor) {
  std::vector<double> difference(got.begin(), got.end());
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= expected[i];
  return norm(difference) / std::max(norm(expected), floor);
}

/// The elements [begin, end) of a QKV bias (3, H, D) that belong to keys: a key's bias moves all
/// scores of a query alike, so their gradient is exactly zero and what is computed is rounding.
/// Empty for other tensors.
struct KeyBias {
  std::size_t begin = 0, end = 0;
};
inline KeyBias key_bias(const std::string& name, std::size_t elements) {
  if (!name.ends_with("attn.qkv.bias")) return {};
  return {elements / 3, elements / 3 * 2};
}
inline std::vector<double> without(std::vector<double> values, KeyBias part) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(part.begin),
               values.begin() + static_cast<std::ptrdiff_t>(part.end));
  return values;
}

}  // namespace fourfold::test
