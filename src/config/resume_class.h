// Which keys may differ from those of the checkpoint that a run continues.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/compare.h"
#include "config/config.h"
#include "config/schema.h"

namespace fourfold::config {

/// The class of any key of the schema.
ResumeClass resume_class(std::string_view key);

/// Differences that forbid to go on: those of fixed keys, and of overridable ones that are not
/// among `overrides`; not those whose both values follow from other keys. One line each, with both
/// values and what to do; empty: none.
std::string resume_conflicts(const std::vector<Difference>& differences,
                             const std::vector<std::string>& overrides);

/// What would make the learning rate leap at the step from which the run goes on, although nobody
/// has changed it: more steps stretch a schedule whose end follows from them. Empty: nothing.
std::string schedule_leap(std::int64_t step, const Config& before, const Config& now);

}  // namespace fourfold::config
