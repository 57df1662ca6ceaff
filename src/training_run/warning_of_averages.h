#pragma once

#include <optional>
#include <string>

#include "config/config.h"

namespace fourfold::training_run {

/// What to say where the moving averages of the weights still hold more than a tenth of the
/// untrained weights at the end of the run; nothing where they hold less, or there are none.
std::optional<std::string> warning_of_averages(const config::Config& config);

}  // namespace fourfold::training_run
