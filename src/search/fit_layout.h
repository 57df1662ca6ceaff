// The layout that takes least among those that memory has room for (Zhang et al. 2023, "Rhino",
// section 4.4): the largest parameters may no longer be whole on every rank, as few of them as
// will do. What has room, whoever compiles layouts says.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "search/choose_layout.h"
#include "search/demand.h"

namespace fourfold::search {

struct FittedLayout {
  ChosenLayout chosen;
  /// The largest parameters that may not be whole, the largest first; those at the front as little
  /// of them as there may be on a rank.
  std::vector<std::string> cut;
  std::size_t cut_most = 0;  // so many at the front
  std::size_t asked = 0;     // layouts that were compiled
};

/// Not even the layout fits in which a rank has as little of every parameter as there may be.
struct NothingFits {
  ChosenLayout least;
  std::size_t cut = 0;               // so many parameters: all
  double bytes = 0;                  // of a rank, before buffers are placed (demand.h)
  std::vector<LargeTensor> largest;  // five tensors of a rank, the largest first
};

using FitOutcome = std::variant<FittedLayout, NothingFits, solve::Refused, plan::Infeasible>;

/// `fits`: whether the programs of a layout fit, perhaps with recomputation; asked once for each
/// layout. Where a layout fits, so do those in which more parameters are cut: this is taken for
/// granted, and the fewest found by bisection. `setting.cut` is not looked at.
FitOutcome choose_layout_that_fits(const graph::Graph& train, const plan::Layout& start,
                                   const LayoutSetting& setting, Pricer& pricer,
                                   std::string_view solver,
                                   const std::function<bool(const plan::Layout&)>& fits,
                                   const solve::Limits& limits = {});

}  // namespace fourfold::search
