// A page about runs: one file of HTML that needs nothing else, for a browser, light or dark, wide
// or narrow. Not what stands in it (run_data.h), and no drawing (chart.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/run_data.h"

namespace fourfold::report {

/// The page of one run, or of several that are compared, each with a colour of its own. `made_by`
/// stands at its foot. Whatever texts of runs hold is shown, never interpreted.
std::string make_page(std::span<const Run> runs, const std::string& made_by);
/// True if a file that begins so is such a page. `beginning`: its first 512 bytes, or more.
bool is_page(std::string_view beginning);

}  // namespace fourfold::report
