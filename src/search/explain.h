// Why one plan is faster than another, in a sentence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search/rank_grids.h"

namespace fourfold::search {

/// One of the things that the time of a step is spent on.
struct Spending {
  std::string name;  // "compute", "activations"; of simulated steps "gemm", "waiting for z.weights"
  double a = 0, b = 0;
};
/// What two steps are spent on by closed form, hidden traffic apart; what speaks most for `a`
/// first.
std::vector<Spending> spendings(const Price& a, const Price& b);
/// The same as they were simulated, where both were.
std::vector<Spending> spendings(const PricedPlan& a, const PricedPlan& b);

/// The time of `a` as it is comparable with that of `b`: simulated where both are, else by closed
/// form.
double seconds_beside(const PricedPlan& a, const PricedPlan& b);

/// "activations".
std::string_view purpose_word(compile::Purpose purpose);

/// "x 2 y 1 z 16 data 4".
std::string grid_text(const plan::Grid& grid);
/// The same with the stages that have such a grid each: "2 stages (1f1b) of x 2 ...".
std::string shape_text(const plan::PlanSpec& spec);
/// The traffic on "activations", say, that takes longest, in words: "all_reduce along x"; empty
/// where nothing is sent for them.
std::string heaviest_traffic(const PricedPlan& plan, const std::string& spending);

/// Why `a`, called so, takes no longer than `b`: what decides, by how much, which traffic most of
/// it is on both sides, and what speaks most against it. Simulated times are compared with
/// simulated ones alone.
std::string why_faster(const PricedPlan& a, const std::string& name_a, const PricedPlan& b,
                       const std::string& name_b);

/// What most of the time is that `b` takes longer than `a`, in a few words: "+51.6 ms: weights,
/// all_gather along z"; empty where it takes no longer.
std::string excess(const PricedPlan& a, const PricedPlan& b);

}  // namespace fourfold::search
