// How far two tensors are apart. Header only.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
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
  if (!name.ends_with(".qkv.bias")) return {};
  return {elements / 3, elements / 3 * 2};
}
inline std::vector<double> without(std::vector<double> values, KeyBias part) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(part.begin),
               values.begin() + static_cast<std::ptrdiff_t>(part.end));
  return values;
}

/// The norm of the difference of all gradients over that of all gradients, by name; key biases left
/// out.
inline double distance(const std::map<std::string, std::vector<double>>& got,
                       const std::map<std::string, std::vector<double>>& expected) {
  double difference = 0, size = 0;
  for (const auto& [name, gradient] : expected) {
    const KeyBias keys = key_bias(name, gradient.size());
    const std::vector<double> wanted = without(gradient, keys);
    size = std::hypot(size, norm(wanted));
    difference = std::hypot(difference,
                            norm(wanted) * relative_error(without(got.at(name), keys), wanted, 0));
  }
  return difference / size;
}

}  // namespace fourfold::test
