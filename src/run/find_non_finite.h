// Names the first NaN or infinity of a step that did not apply its update. Not a check that runs in
// every step: that one is in the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "comm/world.h"
#include "run/executor.h"
#include "run/serial_order.h"

namespace fourfold::run {

struct NonFinite {
  /// Which instruction of the program wrote it; none where it was there before the step.
  std::optional<std::size_t> instruction;
  std::string name;  // of the instruction's op
  std::string
      buffer;  // "blocks.0.mlp.up.weight", or the field of a block: "step.lr", "result.loss_sum"
  std::int64_t element = 0;  // of the buffer, as this rank holds it
  double value = 0;
  std::int64_t count = 0;  // how many of the elements looked at are not finite
  SerialPlace place;       // of the instruction

  /// "contract (instruction 17) wrote NaN into element 5 of blocks.0.attn.qkv, the first of 12
  /// such".
  std::string text() const;
};

/// Looks at the learning rate, then at parameters and moments, then runs the program and looks at
/// what each instruction wrote, right after it. The first one is that of the step as one rank would
/// do it (serial_order.h), whatever runs at the same time. Whatever the program decides, the update
/// is not applied, so weights and moments stay as they are. None where everything is finite. With
/// several ranks all call together, and each finds the first on itself.
std::optional<NonFinite> find_non_finite(Executor& executor, op::ProgramKind program,
                                         const op::StepBlock& step, Feeder* feeder = nullptr);

/// The first of what all ranks have found, with its rank, which is the lowest of those that have
/// found it in one place: "rank 1: contract (instruction 17) wrote ..."; the same text on all
/// ranks. They call together. None where none has found anything.
std::optional<std::string> first_of_all(const std::optional<NonFinite>& found, comm::World& world);

}  // namespace fourfold::run
