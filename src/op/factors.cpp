#include "op/factors.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::op {
namespace {

std::int64_t axis_size(const Cut& cut, const Mesh& mesh) {
  return mesh.axes[cut.axis.index()].size;
}

/// A cut with its stride stated, and the elements [stride, stride * ranks) whose digits it divides.
struct Digits {
  Cut cut;
  std::int64_t stride = 1, ranks = 1;
  std::int64_t end() const { return stride * ranks; }
};

/// The digits of each cut; `rest` is what the cuts before leave, as op::local_size has it.
std::vector<Digits> digits_of(std::int64_t size, const Cuts& cuts, const Mesh& mesh) {
  std::vector<Digits> list;
  std::int64_t rest = size;
  for (const Cut& cut : cuts) {
    const std::int64_t ranks = axis_size(cut, mesh);
    const std::int64_t stride =
        std::max<std::int64_t>(cut.stride.value_or((rest + ranks - 1) / ranks), 1);
    list.push_back({cut, stride, ranks});
    rest = (rest + ranks * stride - 1) / (ranks * stride) * stride;
  }
  return list;
}

/// 0 where a text claims sizes that make no dim.
std::int64_t product(std::string_view factors, const FactorSizes& sizes) {
  std::int64_t total = 1;
  for (const char factor : factors)
    if (sizes.at(factor) < 1 || __builtin_mul_overflow(total, sizes.at(factor), &total)) return 0;
  return total;
}

}  // namespace

OperandFactors::OperandFactors(std::string text) {
  if (text.find('(') == text.npos) {
    letters_ = std::move(text);
    return;
  }
  bool inside = false;
  for (const char letter : text) {
    if (letter == '(') dims_.emplace_back(letters_.size(), 0);
    inside = letter == '(' || (inside && letter != ')');
    if (letter == '(' || letter == ')') continue;
    if (!inside) dims_.emplace_back(letters_.size(), 0);
    ++dims_.back().second;
    letters_ += letter;
  }
}

std::variant<std::map<char, Cuts>, std::string> split_cuts(std::string_view factors,
                                                           const FactorSizes& sizes,
                                                           const Cuts& cuts, const Mesh& mesh) {
  std::map<char, Cuts> result;
  for (const char factor : factors) result[factor];
  if (factors.size() == 1) {
    result[factors[0]] = cuts;
    return result;
  }
  const std::int64_t whole = product(factors, sizes);
  if (whole == 0) return format("the factors {} of a dim have no size", factors);
  for (const Digits& digits : digits_of(whole, cuts, mesh)) {
    std::int64_t inside = whole;
    bool found = false;
    for (const char factor : factors) {
      const std::int64_t outside = inside;
      inside /= sizes.at(factor);
      found = digits.stride % inside == 0 && outside % digits.end() == 0;
      if (!found) continue;
      Cuts& of_factor = result[factor];
      std::int64_t rest = sizes.at(factor);
      for (const Digits& before : digits_of(rest, of_factor, mesh)) rest = before.stride;
      const std::int64_t stride = digits.stride / inside;
      const bool is_next = stride * digits.ranks == rest;
      of_factor.push_back({digits.cut.axis, is_next ? std::nullopt : std::optional(stride)});
      break;
    }
    if (!found)
      return format("axis {} cuts across the factors {}", mesh.axes[digits.cut.axis.index()].name,
                    factors);
  }
  return result;
}

std::variant<Cuts, std::string> merge_cuts(std::string_view factors, const FactorSizes& sizes,
                                           const std::map<char, Cuts>& cuts, const Mesh& mesh) {
  if (factors.size() == 1) {
    const auto place = cuts.find(factors[0]);
    return place == cuts.end() ? Cuts() : place->second;
  }
  Cuts result;
  std::int64_t inside = product(factors, sizes), rest = inside;
  if (inside == 0) return format("the factors {} of a dim have no size", factors);
  for (const char factor : factors) {
    inside /= sizes.at(factor);
    const auto place = cuts.find(factor);
    if (place == cuts.end()) continue;
    for (const Digits& digits : digits_of(sizes.at(factor), place->second, mesh)) {
      if (sizes.at(factor) % digits.end() != 0)
        return format("axis {} does not divide the {} of factor {}, which shares a dim",
                      mesh.axes[digits.cut.axis.index()].name, sizes.at(factor), factor);
      const std::int64_t stride = digits.stride * inside;
      const bool is_next = stride * digits.ranks == rest;
      result.push_back({digits.cut.axis, is_next ? std::nullopt : std::optional(stride)});
      if (is_next) rest = stride;
    }
  }
  return result;
}

bool is_cyclic(std::int64_t size, const Cuts& cuts, const Mesh& mesh) {
  std::int64_t rest = size;
  for (const Digits& digits : digits_of(size, cuts, mesh)) {
    if (digits.end() < rest) return true;
    rest = digits.stride;
  }
  return false;
}

}  // namespace fourfold::op
