// Curves as numbers, from which the page's script draws what a reader zooms into. Drawings that
// stand without it: chart.h.
#pragma once

#include <span>
#include <string>

#include "report/chart.h"
#include "report/run_data.h"

namespace fourfold::report {

/// JSON: a list of {"name", "color", "run", "dots", "x", "y"}, and "least" and "most" for a curve
/// of more points than 3000, of which each number then stands for several. `runs` has the number of
/// the run of each curve. Values that are not finite are left out. Not escaped for HTML.
std::string chart_data(std::span<const ChartCurve> curves, std::span<const std::size_t> runs);

/// JSON: a list of {"items", "marks"}, one of each run: [step, items read until then], straight
/// between, and [step, words, color].
std::string runs_data(std::span<const Run> runs,
                      std::span<const std::vector<ChartMark>> marks_of_runs);

}  // namespace fourfold::report
