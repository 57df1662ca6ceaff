// Which keys may differ from those of the checkpoint that a run continues.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/compare.h"

namespace fourfold::config {

enum class ResumeClass {
  free,         // where and how it runs, how long, what it tells
  overridable,  // changes what is learned: only when the user says so
  fixed         // the checkpoint would not fit
};

/// Of every key of the schema.
ResumeClass resume_class(std::string_view key);

/// Differences that forbid to go on: those of fixed keys, and of overridable ones that are not
/// among `overrides`. One line each, with both values and what to do; empty: none.
std::string resume_conflicts(const std::vector<Difference>& differences,
                             const std::vector<std::string>& overrides);

}  // namespace fourfold::config
