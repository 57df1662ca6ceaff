// Why one plan is faster than another, in a sentence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search/rank_grids.h"

namespace fourfold::search {

/// One of the things that the time of a step is spent on.
struct Spending {
  std::string name;  // "compute", "activations"
  double a = 0, b = 0;
};
/// What two steps are spent on, what speaks most for `a` first.
std::vector<Spending> spendings(const Price& a, const Price& b);

/// "activations".
std::string_view purpose_word(compile::Purpose purpose);

/// "x 2 y 1 z 16 data 4".
std::string grid_text(const plan::Grid& grid);
/// The traffic on "activations", say, that takes longest, in words: "all_reduce along x"; empty
/// where nothing is sent for them.
std::string heaviest_traffic(const PricedPlan& plan, const std::string& spending);

/// Why `a`, called so, takes no longer than `b`: what decides, by how much, which traffic most of
/// it is on both sides, and what speaks most against it.
std::string why_faster(const PricedPlan& a, const std::string& name_a, const PricedPlan& b,
                       const std::string& name_b);

}  // namespace fourfold::search
