#include "op/factor_choice.h"

#include <algorithm>

namespace fourfold::op {

FactorChoice::FactorChoice(const FactorRule& rule, const Mesh& mesh) : rule_(rule), mesh_(mesh) {
  for (const char factor : rule.whole) chosen_[factor];
}

void FactorChoice::follow(std::size_t operand, const Sharding& sharding) {
  const OperandFactors& dims = rule_.operands[operand];
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    const Cuts cuts = dim < sharding.dims.size() ? sharding.dims[dim] : Cuts();
    const auto split = split_cuts(dims[dim], rule_.sizes, cuts, mesh_);
    const auto* fitting = std::get_if<0>(&split);
    for (const char factor : dims[dim])
      choose(factor, fitting != nullptr ? fitting->at(factor) : Cuts());
    if (dims[dim].size() > 1) gather_cyclic(dims[dim]);
  }
  // A product that another operand begins may be cut by what this one has chosen.
  gather_cyclic();
}

bool FactorChoice::cut(char factor, std::int64_t size, std::span<const AxisId> axes) {
  std::int64_t ranks = 1;
  Cuts cuts;
  for (const AxisId axis : axes) {
    if (mesh_.axes[axis.index()].size == 1) continue;
    ranks *= mesh_.axes[axis.index()].size;
    cuts.push_back({axis, std::nullopt});
    if (is_taken(axis)) return false;
  }
  if (chosen_.contains(factor) || size % ranks != 0) return false;
  chosen_[factor] = cuts;
  gather_cyclic();
  return chosen_[factor] == cuts;
}

bool FactorChoice::is_taken(AxisId axis) const {
  return std::any_of(chosen_.begin(), chosen_.end(), [&](const auto& factor) {
    return std::any_of(factor.second.begin(), factor.second.end(),
                       [&](const Cut& cut) { return cut.axis == axis; });
  });
}

void FactorChoice::choose(char factor, const Cuts& cuts) {
  const auto [place, is_open] = chosen_.try_emplace(factor);
  if (!is_open) return;
  Cuts free;
  for (const Cut& cut : cuts)
    if (!is_taken(cut.axis)) free.push_back(cut);
  // Strides are those of all cuts of a padded dim together.
  const bool strides_stated =
      std::any_of(cuts.begin(), cuts.end(), [](const Cut& cut) { return cut.stride.has_value(); });
  if (free.size() == cuts.size() || !strides_stated) place->second = std::move(free);
}

void FactorChoice::gather_cyclic() {
  for (const OperandFactors& operand : rule_.operands)
    for (std::size_t dim = 0; operand.has_products() && dim < operand.size(); ++dim)
      if (operand[dim].size() > 1) gather_cyclic(operand[dim]);
}

void FactorChoice::gather_cyclic(std::string_view factors) {
  bool outside_in_pieces = true;
  for (const char factor : factors) {
    const auto place = chosen_.find(factor);
    std::int64_t pieces = 1;
    if (place != chosen_.end()) {
      if (!outside_in_pieces) place->second.clear();
      for (const Cut& cut : place->second) pieces *= mesh_.axes[cut.axis.index()].size;
    }
    outside_in_pieces = outside_in_pieces && pieces == rule_.sizes.at(factor);
  }
}

Sharding FactorChoice::cuts_of(std::size_t operand) const {
  Sharding sharding;
  const OperandFactors& dims = rule_.operands[operand];
  bool any_cut = false;
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    auto cuts = merge_cuts(dims[dim], rule_.sizes, chosen_, mesh_);
    // What does not divide evenly is left whole.
    sharding.dims.push_back(std::holds_alternative<Cuts>(cuts) ? std::get<Cuts>(std::move(cuts))
                                                               : Cuts());
    any_cut = any_cut || !sharding.dims.back().empty();
  }
  if (!any_cut) sharding.dims.clear();
  return sharding;
}

}  // namespace fourfold::op
