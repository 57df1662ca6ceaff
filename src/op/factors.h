// Dims as products of factors, and what a cut of a dim is to the factors in it. See rule.h for what
// factors are for.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "op/sharding.h"

namespace fourfold::op {

/// The factors of each dim of an operand, a letter a factor: "btc" has three dims of one factor
/// each; "b(hd)" has two, of which the second is the product of h and d, h being the outer one.
class OperandFactors {
 public:
  OperandFactors() = default;  // a scalar's
  OperandFactors(std::string text);
  OperandFactors(const char* text) : OperandFactors(std::string(text)) {}

  /// The number of dims.
  std::size_t size() const { return has_products() ? dims_.size() : letters_.size(); }
  /// The factors of a dim, outermost first.
  std::string_view operator[](std::size_t dim) const {
    if (!has_products()) return std::string_view(letters_).substr(dim, 1);
    return std::string_view(letters_).substr(dims_[dim].first, dims_[dim].second);
  }
  /// All factors, in the order of the dims.
  const std::string& letters() const { return letters_; }
  bool has_products() const { return !dims_.empty(); }

 private:
  std::string letters_;
  std::vector<std::pair<std::size_t, std::size_t>> dims_;  // begin and number; empty: one each
};

using Cuts = std::vector<Cut>;
using FactorSizes = std::map<char, std::int64_t>;

/// Which factor each cut of a dim cuts: element i of the dim has digit (i / what stands inside of
/// the factor) mod its size, and a cut has to lie within one factor. A factor's cuts are outermost
/// first. Otherwise a sentence with the axis that does not fit. A dim of several factors has no
/// padding.
std::variant<std::map<char, Cuts>, std::string> split_cuts(std::string_view factors,
                                                           const FactorSizes& sizes,
                                                           const Cuts& cuts, const Mesh& mesh);

/// The cuts of a dim whose factors are cut so; those that are missing in `cuts` are whole. Where an
/// inner factor is cut and what is outside of it is not, all in one piece, the dim is cut
/// cyclically: its cut states a stride (see is_cyclic). A sentence where a factor is not divided
/// evenly.
std::variant<Cuts, std::string> merge_cuts(std::string_view factors, const FactorSizes& sizes,
                                           const std::map<char, Cuts>& cuts, const Mesh& mesh);

/// True if some rank has elements of a dim that do not stand next to each other.
bool is_cyclic(std::int64_t size, const Cuts& cuts, const Mesh& mesh);

}  // namespace fourfold::op
