// A step as it was predicted beside the same step as it was measured: two timelines of one job.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"
#include "trace/timeline.h"

namespace fourfold::trace {

/// Seconds of a step, mean over the steps and over the ranks that both timelines have.
struct Beside {
  std::string what;
  double predicted_s = 0, measured_s = 0;

  /// By how much the prediction is off; more than measured is positive.
  double error_s() const { return predicted_s - measured_s; }
};

struct Comparison {
  std::vector<std::size_t> ranks;  // that both have
  Beside step;
  /// The math stream's classes of work ("gemm"), then the exposed time of each class of traffic
  /// ("exposed z.weights"), then what is left.
  std::vector<Beside> kinds;
  std::vector<Beside> worst;  // instructions, waits apart, the largest error first; at most 5
};

/// The rows of the largest errors, the largest first; at most so many.
std::vector<Beside> furthest_off(std::vector<Beside> rows, std::size_t most);

/// Requires steps on each rank. Errors: UserError(bad_data) that names both files where they have
/// no rank in common, or a rank does not do the same in both.
Comparison compare(const Timeline& predicted, const std::string& predicted_file,
                   const Timeline& measured, const std::string& measured_file);

/// Two tables, at most 100 columns wide.
std::string to_text(const Comparison& comparison);
/// All numbers; times in seconds.
Json to_json(const Comparison& comparison);
Json to_json(const Beside& beside);

}  // namespace fourfold::trace
