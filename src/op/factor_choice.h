// A choice of cuts for the factors of a rule, made operand by operand: what a planner fills in and
// propagate then judges.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "op/rule.h"

namespace fourfold::op {

/// Factors that may not be cut are uncut from the start. The first operand that brings a factor
/// decides about it.
class FactorChoice {
 public:
  FactorChoice(const FactorRule& rule, const Mesh& mesh);

  /// Cuts a factor that is still open, of so many elements, by these axes, outermost first, if they
  /// divide it and cut no other factor. Returns whether it is then cut so.
  bool cut(char factor, std::int64_t size, std::span<const AxisId> axes);

  /// Gives the factors of an operand that are still open the cuts of `sharding`, but for those of
  /// axes that cut another factor already: they are gathered, as are cuts that do not fit into
  /// factors.
  void follow(std::size_t operand, const Sharding& sharding);

  /// The cuts of an operand by the factors chosen; open ones are uncut. A product of factors is
  /// never cut cyclically: an inner factor is uncut where what is outside of it is not in pieces of
  /// one element.
  Sharding cuts_of(std::size_t operand) const;

 private:
  bool is_taken(AxisId axis) const;
  void choose(char factor, const Cuts& cuts);
  void gather_cyclic();
  /// Cuts of inner factors that would make a dim cyclic.
  void gather_cyclic(std::string_view factors);

  const FactorRule& rule_;
  const Mesh& mesh_;
  std::map<char, Cuts> chosen_;
};

}  // namespace fourfold::op
