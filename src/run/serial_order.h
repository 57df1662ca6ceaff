// Where an instruction stands in the step that one rank would do by itself, micro-batch after
// micro-batch and stage after stage: an order in which no value stands before what it is made of,
// on whatever ranks these are. Not the order in which anything runs.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/program.h"

namespace fourfold::run {

struct SerialPlace {
  /// What was there before the step, the passes over micro-batches, what follows them. What other
  /// meshes sent comes last: its place is where it was made.
  enum class Phase : std::uint8_t { state, passes, update, received } phase = Phase::state;
  std::int64_t micro = 0;
  std::int64_t pass = 0;   // forward, backward, gradients of weights
  std::int64_t stage = 0;  // as the pass meets it
  /// In the update, whose ranks exchange what they have, a value that was passed on comes after
  /// those that were made.
  bool is_passed_on = false;
  std::int64_t number = 0;  // of the instruction, in its task

  auto operator<=>(const SerialPlace&) const = default;
};

/// The places of the instructions of a program. Ranks of one mesh compute and meet in the same
/// order and differ in their messages alone, which therefore do not count.
std::vector<SerialPlace> serial_places(const program::Program& program);

}  // namespace fourfold::run
