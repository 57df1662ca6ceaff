// How many layers and ranks each stage of a pipeline may have, by work alone. Not which grid they
// make: choose_meshes.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fourfold::search {

/// A way to divide layers and ranks among stages, the first one first.
struct Division {
  std::vector<std::int64_t> layers, ranks;
  double most_work = 0;  // of a rank of the slowest stage
  double all_work = 0;   // of a rank of each stage, added up
  /// A step: one micro-batch goes through all stages, and each other one takes the slowest's time.
  double step_work(std::int64_t micros) const {
    return all_work + static_cast<double>(micros - 1) * most_work;
  }
  bool operator==(const Division&) const = default;
};

/// What is divided, and how.
struct DivisionSpec {
  std::vector<double> work_before;  // by layer, that of all before it; of all at the end
  std::size_t stages = 2;
  std::int64_t ranks = 2;
  std::int64_t micros = 1;                 // of a step
  std::vector<std::int64_t> layers = {};   // by stage, where they are given
  std::vector<std::int64_t> choices = {};  // numbers of ranks that a stage may have, ascending
};

/// The divisions with the least work in a step, the least first, `count` at most. Exact for one; of
/// the others some may be missed whose first stages are worse than those of as many others.
/// Cost: stages x layers^2 x choices x ranks by their greatest common divisor.
std::vector<Division> best_divisions(const DivisionSpec& spec, std::size_t count);

}  // namespace fourfold::search
