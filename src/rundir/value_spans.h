// The values that a run's keys have had, and the steps for which each held.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/schema.h"

namespace fourfold::rundir {

/// A configuration, and the number of steps that were done before it held.
struct Held {
  std::int64_t first_step = 0;
  config::Config config;
};

/// Reads the configuration of a file or of the run in a folder. Errors: UserError.
using LoadConfig = std::function<config::Config(const std::string& path)>;

/// The configurations of a file (one) or of a run: one for each session, the last session last. A
/// session whose record cannot be read is left out. Errors: those of `load` for the last one.
std::vector<Held> held_configs(const std::string& path, const LoadConfig& load);

/// A value of a key, and the steps for which it held; `last` is none where it holds to the end.
struct ValueSpan {
  config::Origin origin;
  std::int64_t first = 0;
  std::optional<std::int64_t> last;

  /// Where the value was given, and for which steps it held: "a.yaml:3; steps 1 to 100".
  std::string place() const;
  /// The same value for the same steps, wherever it was given.
  bool operator==(const ValueSpan& other) const;
};

/// The values of a key, in the order of the steps; equal ones in a row are one.
std::vector<ValueSpan> spans_of(const config::Key& key, const std::vector<Held>& configs);

/// The keys in which the two sides differ, each with a line for every value of the left side ("-
/// "), then of the right one ("+ "), and the place of that value. Empty: none differs.
std::string differences(const std::vector<Held>& left, const std::vector<Held>& right);

}  // namespace fourfold::rundir
