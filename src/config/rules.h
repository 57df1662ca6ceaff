// Relations between keys. Not the bounds of one key (schema.h).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"

namespace fourfold::config {

/// What does not fit, naming the keys and their values; and values that would.
struct Finding {
  std::string message;
  std::string hint;
};

struct Rule {
  std::vector<std::string>
      keys;  // that the rule reads; it is skipped when one of them is wrong already
  std::function<std::optional<Finding>(const Config&)> check;
  bool is_of_grid = false;  // only the grid is at fault: another one would do
  /// The kinds of models that it is a rule of; none: of any that have its keys.
  std::vector<model::Kind> kinds = {};
};

std::span<const Rule> rules();

/// Throws UserError(bad_config) where stages pass signals alone: that can be planned and simulated,
/// but there is nothing to compute with.
void refuse_signals(const Config& config);

}  // namespace fourfold::config
